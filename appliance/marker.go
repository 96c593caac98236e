// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

// markerDoc is the content of x.vqf.ready and x.vqf.failed.
type markerDoc struct {
	V       int    `json:"v"`
	Model   string `json:"model"`
	Version string `json:"version,omitempty"`
	SHA256  string `json:"sha256,omitempty"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	At      string `json:"at"`
	File    fileID `json:"file"`
}

// markReady writes the .ready marker and removes a .failed one.
func markReady(drop string, c candidate, version, digest string, now time.Time) error {
	doc := markerDoc{V: 1, Model: c.Name, Version: version, SHA256: digest, At: now.UTC().Format(time.RFC3339), File: c.ID.content()}
	return errors.Join(writeJSON(c.marker(drop, "ready"), doc, 0o640), remove(c.marker(drop, "failed")))
}

// markFailed writes the .failed marker with the reason. The .ready marker goes
// unless an older version of the model still serves.
func markFailed(drop string, c candidate, code, message string, serving bool, now time.Time) error {
	doc := markerDoc{V: 1, Model: c.Name, Code: code, Message: message, At: now.UTC().Format(time.RFC3339), File: c.ID.content()}
	err := writeJSON(c.marker(drop, "failed"), doc, 0o640)
	if !serving {
		err = errors.Join(err, remove(c.marker(drop, "ready")))
	}
	return err
}

// heldByFailure reports whether a .failed marker tells of exactly this file:
// it is tried again when the marker is removed or the file changes.
func heldByFailure(drop string, c candidate) (markerDoc, bool) {
	var doc markerDoc
	if err := readJSON(c.marker(drop, "failed"), &doc); err != nil || doc.V == 0 {
		return markerDoc{}, false
	}
	return doc, doc.File == c.ID.content()
}

// clearMarkers removes both markers of an entry that is gone.
func clearMarkers(drop string, c candidate) error {
	return errors.Join(remove(c.marker(drop, "ready")), remove(c.marker(drop, "failed")))
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
