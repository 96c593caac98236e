// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"path/filepath"
	"slices"

	"windhover/control"
)

// trialEnds is how often the daemon may end while it loads and tries one dropped file
// before that file is given up: what the kernel kills it for (memory that is not
// there, an instruction that the CPU lacks) happens again at every start, and nothing
// else would ever be served.
const trialEnds = 3

// trial is the file that is being loaded for the first time. It is on the disk while
// that goes on, and a start that finds it knows how the run before ended. A version
// that served before is on no trial: power cuts while a box starts are no fault of it.
type trial struct {
	V     int      `json:"v"`
	Model string   `json:"model"`
	File  fileID   `json:"file"`
	Side  []fileID `json:"side,omitempty"`
	Ends  int      `json:"ends"` // runs that ended with it
}

func (d *deployer) trialPath() string { return filepath.Join(filepath.Dir(d.book.path), "trial.json") }

// beginTrial notes that a candidate is going to be loaded. The error has the code
// load_failed: too many runs ended with that.
func (d *deployer) beginTrial(s *sighting) error {
	var before trial
	if err := readJSON(d.trialPath(), markerBytes, &before); err != nil {
		d.log.Warn("the note of what was being loaded cannot be read", "error", err)
	}
	now := trial{V: 1, Model: s.Name}
	now.File, now.Side = s.contents()
	if before.Model == now.Model && before.File == now.File && slices.Equal(before.Side, now.Side) {
		now.Ends = before.Ends + 1
	}
	if now.Ends >= trialEnds {
		d.endTrial()
		s.ends = now.Ends
		return control.Errorf(control.LoadFailed, "the daemon ended %d times while it loaded this file, as it does when memory runs out: remove %s.failed to try it again", now.Ends, s.Entry)
	}
	if err := writeJSON(d.trialPath(), now, 0o600); err != nil {
		d.log.Warn("what is being loaded is not noted: a model that ends the daemon would be tried again", "model", s.Name, "error", err)
	}
	return nil
}

// endTrial notes that the daemon has outlived it.
func (d *deployer) endTrial() {
	if err := remove(d.trialPath()); err != nil {
		d.log.Warn("the note of what was being loaded is not removed", "error", err)
	}
}
