// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"windhover/control"
)

// The quarantine holds what is known of files that turned out to be bad, by digest, so
// that bytes which ended the daemon are not loaded again under another name, or when a
// script that knows no better copies them once more. The files themselves stay where their owners put them:
// a copy of a bad model would take the space of a good one.

// quarantined is the record of one digest.
type quarantined struct {
	V       int    `json:"v"`
	SHA256  string `json:"sha256"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Model   string `json:"model"`
	Version string `json:"version,omitempty"`
	Entry   string `json:"entry"` // in the drop directory
	File    fileID `json:"file"`
	Ends    int    `json:"ends,omitempty"` // runs of the daemon that ended with it: the same bytes are not loaded again
	Daemon  string `json:"daemon"`         // version that found it out: another one may load the file
	At      string `json:"at"`
}

// quarantineSize is how many records there may be; the oldest go.
const quarantineSize = 64

func (d *deployer) quarantinePath(sha string) string {
	return filepath.Join(d.quarantine, "sha256-"+sha+".json")
}

// isolate records that the file of a candidate is bad, if its digest is known.
func (d *deployer) isolate(s *sighting) {
	switch s.failure.Code {
	case control.LoadFailed, control.HealthCheckFailed, control.DigestMismatch, control.SignatureInvalid, control.FormatInvalid, control.Incompatible:
	default:
		return // not the fault of the file
	}
	if s.digest == "" {
		return
	}
	doc := quarantined{V: 1, SHA256: s.digest, Code: s.failure.Code.Name, Message: s.failure.Message, Model: s.Name, Version: s.version,
		Entry: s.Entry, Ends: s.ends, Daemon: Version, At: d.now().UTC().Format(time.RFC3339)}
	if s.again != nil {
		doc = *s.again // what was found out the first time
	}
	doc.File, _ = s.contents()
	if err := writeJSON(d.quarantinePath(s.digest), doc, 0o600); err != nil {
		d.log.Warn("the record of a refused file is not written", "model", s.Name, "error", err)
		return
	}
	if err := d.boundQuarantine(filepath.Base(d.quarantinePath(s.digest))); err != nil {
		d.log.Warn("the oldest records of refused files are not removed", "error", err)
	}
}

// acquit removes the record of a digest: the file works after all.
func (d *deployer) acquit(sha string) {
	if sha == "" {
		return
	}
	if err := remove(d.quarantinePath(sha)); err != nil {
		d.log.Warn("the record of a refused file is not removed", "error", err)
	}
}

// isolated is the failure of a candidate whose bytes ended the daemon under another
// name, or before they were copied again; nil if there is none. The very same file is
// judged by its marker: whoever removed that wants it tried.
func (d *deployer) isolated(s *sighting) error {
	s.again, s.ends = nil, 0
	if s.digest == "" {
		return nil
	}
	var doc quarantined
	if err := readJSON(d.quarantinePath(s.digest), markerBytes, &doc); err != nil {
		d.log.Warn("the record of a refused file cannot be read", "error", err)
		return nil
	}
	file, _ := s.contents()
	if doc.Ends == 0 || doc.File == file || doc.Daemon != Version {
		return nil
	}
	s.again = &doc
	return control.Errorf(control.LoadFailed, "the same file ended the daemon %d times as %s at %s: remove %s.failed to try it all the same", doc.Ends, doc.Entry, doc.At, s.Entry)
}

// boundQuarantine removes the oldest records beyond quarantineSize. The latest one gets a
// time behind those of all others: it is not the oldest where the clock was put back.
func (d *deployer) boundQuarantine(latest string) error {
	entries, err := os.ReadDir(d.quarantine)
	if err != nil {
		return err
	}
	type record struct {
		name string
		at   time.Time
	}
	var all []record
	var last, made time.Time
	for _, e := range entries {
		fi, err := e.Info()
		switch {
		case err != nil: // it went meanwhile
		case e.Name() == latest:
			made = fi.ModTime()
		default:
			all = append(all, record{e.Name(), fi.ModTime()})
			if fi.ModTime().After(last) {
				last = fi.ModTime()
			}
		}
	}
	if !made.After(last) {
		if err := os.Chtimes(filepath.Join(d.quarantine, latest), time.Time{}, last.Add(time.Millisecond)); err != nil {
			return err
		}
	}
	slices.SortFunc(all, func(a, b record) int { return a.at.Compare(b.at) })
	for _, r := range all[:max(0, len(all)+1-quarantineSize)] {
		if err := remove(filepath.Join(d.quarantine, r.name)); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}
