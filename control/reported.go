// SPDX-License-Identifier: Apache-2.0

package control

import "time"

// What a device makes of a desired document, the status of Reported.
const (
	DesiredHeld    = "held"    // the roll-out has not reached it
	DesiredQueued  = "queued"  // accepted, not begun
	DesiredRunning = "running" // at least one model is under way
	DesiredCurrent = "current" // every model of the document is installed and holds
	DesiredFailed  = "failed"  // the document was refused, or a model of it was given up
)

// Reported is the retained answer of a device to desired documents.
type Reported struct {
	V      int             `json:"v"`
	Rev    int64           `json:"rev"`              // of the document that counts, or of the one that was refused; 0: none
	Target string          `json:"target"`           // of it: "device/NAME" or "group/NAME"
	Groups []string        `json:"groups,omitempty"` // that the device belongs to
	Status string          `json:"status"`
	Bucket int             `json:"bucket"` // 0 to 9999, by the salt of the document
	Models []ReportedModel `json:"models,omitempty"`
	Error  *Error          `json:"error,omitempty"` // why the document was refused
	At     time.Time       `json:"at,omitzero"`
}

// ReportedModel is what became of one model of the document.
type ReportedModel struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	Release    int64  `json:"release"`
	SHA256     string `json:"sha256"`
	Status     string `json:"status"`          // as of a job: queued running succeeded failed rejected canceled
	Phase      string `json:"phase,omitempty"` // while it is running
	Error      *Error `json:"error,omitempty"`
	RolledBack bool   `json:"rolled_back,omitempty"` // the version before serves

	Progress *JobFraction `json:"progress,omitempty"` // of the phase, in bytes
	Serves   string       `json:"serves,omitempty"`   // the version that serves, on trial or not
}

// Final says whether the device has done with the document.
func (r *Reported) Final() bool { return r.Status == DesiredCurrent || r.Status == DesiredFailed }

// DecodeReported reads a Reported. The error is BadRequest.
func DecodeReported(data []byte) (*Reported, error) {
	r := new(Reported)
	if !decodeJSON(data, r) {
		return nil, Errorf(BadRequest, "the reported document is not what it should be")
	}
	return r, nil
}
