// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"encoding/json"
	"os"
	"path/filepath"

	"windhover/control"
)

// schemas are the files of the state that this package and its updates write, beside
// those that refuse a later version where they are read: the book (openBook), those of
// package control (control.New), the state of updates, without which dropped models
// still serve (package rollout), and records of downloads, each on its own (package
// fetch). Kept prefixes are a cache: what another version saved is not read.
func schemas(p Paths) map[string]int {
	return map[string]int{
		filepath.Join(p.state(), "trial.json"):  1,
		filepath.Join(p.state(), "plan-*.json"): 1, // of package update
		filepath.Join(p.quarantine(), "*.json"): 1,
	}
}

// checkSchemas refuses a state that a later program has written to, before anything in
// it is touched. What cannot be read is left to whoever reads it.
func checkSchemas(p Paths) error {
	for pattern, known := range schemas(p) {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, path := range files {
			var is struct {
				V int `json:"v"`
			}
			data, err := os.ReadFile(path)
			if err != nil || json.Unmarshal(data, &is) != nil || is.V <= known {
				continue
			}
			return control.Errorf(control.Incompatible, "%s is of schema %d, and this version of windhover knows up to %d: install the later version again, or give it another paths.state", path, is.V, known)
		}
	}
	return nil
}
