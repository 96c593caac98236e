// SPDX-License-Identifier: Apache-2.0

package control

import (
	"strings"
	"time"
)

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

// Report publishes what has become of the desired documents, retained. It goes out
// again at each connection.
func (s *Server) Report(r Reported) {
	r.V = 1
	if r.At.IsZero() {
		r.At = s.cfg.Now().UTC()
	}
	p, err := encode(r)
	if err != nil {
		s.cfg.Notify(Notice{Event: NoticeState, Topic: s.topics.Reported(), Err: err})
		return
	}
	s.docs.publish(s.topics.Reported(), p, false)
	s.mu.Lock()
	s.reported = &r
	s.mu.Unlock()
	s.hass()
}

// wanted are the filters for desired documents.
func (s *Server) wanted() []string {
	if s.cfg.Desired == nil {
		return nil
	}
	f := []string{s.topics.Desired()}
	for _, g := range s.cfg.Groups {
		f = append(f, GroupDesired(g))
	}
	return f
}

// target is whom a document that came on a topic is for, as package ota names it; ""
// for any other topic.
func (s *Server) target(topic string) string {
	if s.cfg.Desired == nil {
		return ""
	}
	if topic == s.topics.Desired() {
		return "device/" + s.cfg.Device
	}
	rest, ok := strings.CutPrefix(topic, prefix+"_group/")
	group, ok2 := strings.CutSuffix(rest, "/desired")
	if ok && ok2 && ValidGroup(group) {
		return "group/" + group
	}
	return ""
}
