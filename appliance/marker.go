// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"windhover/control"
)

// markerDoc is the content of x.vqf.ready and x.vqf.failed.
type markerDoc struct {
	V       int    `json:"v"`
	Model   string `json:"model"`
	Version string `json:"version,omitempty"`
	SHA256  string `json:"sha256,omitempty"`
	Trust   string `json:"trust,omitempty"`
	Signer  string `json:"signer,omitempty"` // who signed it: name and key
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	Needed  int64  `json:"needed_bytes,omitempty"`
	At      string `json:"at"`

	// What it tells of. All zero for a name that is refused. Without the times of
	// a change of mode or owner, unless that is what may help.
	File fileID   `json:"file"`
	Side []fileID `json:"side,omitempty"`
	Sigs []fileID `json:"sigs,omitempty"` // detached signatures

	// What it depends on beside the files, for a failure that other keys, another
	// policy or another passphrase may mend.
	Regime string `json:"regime,omitempty"`
}

// markerBytes is the most a marker may have.
const markerBytes = 64 << 10

// markReady writes the .ready marker and removes a .failed one.
func markReady(drop string, c candidate, in installed, by *voucher, now time.Time) error {
	doc := markerDoc{V: 1, Model: c.Name, Version: in.Version, SHA256: in.SHA256, Trust: kindOf(by), At: now.UTC().Format(time.RFC3339)}
	doc.File, doc.Side = c.contents()
	if by != nil {
		doc.Signer = by.String()
	}
	return errors.Join(writeJSON(c.marker(drop, "ready"), doc, 0o640), remove(c.marker(drop, "failed")))
}

// markFailed writes the .failed marker with the reason. The .ready marker goes
// unless an older version of the model still serves.
func markFailed(drop string, s *sighting, serving bool, now time.Time) error {
	c, e := s.candidate, s.failure
	doc := markerDoc{V: 1, Model: c.Name, Version: s.version, SHA256: s.digest, Code: e.Code.Name, Message: e.Message, Needed: e.Needed,
		Regime: s.regime, Sigs: c.sigContents(), At: now.UTC().Format(time.RFC3339)}
	if doc.File, doc.Side = c.contents(); e.Code == control.Forbidden {
		doc.File, doc.Side = c.ID, c.SideIDs
	}
	err := writeJSON(c.marker(drop, "failed"), doc, 0o640)
	if !serving {
		err = errors.Join(err, remove(c.marker(drop, "ready")))
	}
	return err
}

// markRefused writes a .failed marker for an entry that cannot be a model.
func markRefused(drop, entry, reason string, now time.Time) error {
	doc := markerDoc{V: 1, Model: entry, Code: control.BadRequest.Name, Message: reason, At: now.UTC().Format(time.RFC3339)}
	return writeJSON(candidate{Entry: entry}.marker(drop, "failed"), doc, 0o640)
}

// heldByFailure reports whether a .failed marker tells of exactly this file:
// it is tried again when the marker is removed or the file changes.
func heldByFailure(drop string, c candidate) (markerDoc, bool) {
	var doc markerDoc
	if err := readJSON(c.marker(drop, "failed"), markerBytes, &doc); err != nil || doc.V == 0 {
		return markerDoc{}, false
	}
	if !slices.Equal(doc.Sigs, c.sigContents()) {
		return doc, false
	}
	file, side := c.contents()
	return doc, doc.File == file && slices.Equal(doc.Side, side) || doc.File == c.ID && slices.Equal(doc.Side, c.SideIDs)
}

// failure is the error that a marker tells of.
func (d markerDoc) failure() *control.Error {
	e := control.Errorf(control.Code{Name: d.Code}, "%s", d.Message)
	for _, c := range append(control.Codes(), TokenizerMissing) {
		if c.Name == d.Code {
			e.Code = c
		}
	}
	e.Needed = d.Needed
	return e
}

// clearMarkers removes both markers of an entry.
func clearMarkers(drop string, c candidate) error {
	return errors.Join(remove(c.marker(drop, "ready")), remove(c.marker(drop, "failed")))
}

// dropOrphan removes a marker whose entry is gone, if it is one of ours.
func dropOrphan(path string) error {
	var doc markerDoc
	if err := readJSON(path, markerBytes, &doc); err != nil || doc.V == 0 || doc.At == "" {
		return nil // somebody's own file that happens to be called so
	}
	return remove(path)
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
