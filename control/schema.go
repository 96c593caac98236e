// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// schemaVersion is that of the files this program writes into the state directory:
// session, dedupe.log, retained.json, jobs/*.json. Those without one, from before
// there were versions, are read and written anew. A later one is refused.
const schemaVersion = 1

// versioned is what every file of the state directory begins with.
type versioned struct {
	V int `json:"v"`
}

// checkSchema refuses a state directory that a later program has written to, before
// anything in it is touched: what is there means something that this one does not
// know. What cannot be read is left to whoever reads it.
func checkSchema(dir string) error {
	names := []string{"session", "dedupe.log", retainedFile}
	jobs, err := os.ReadDir(filepath.Join(dir, "jobs"))
	if err == nil {
		for _, e := range jobs {
			if strings.HasSuffix(e.Name(), ".json") && !strings.HasPrefix(e.Name(), ".") {
				names = append(names, filepath.Join("jobs", e.Name()))
			}
		}
	}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		if v := schemaOf(data); v > schemaVersion {
			return Errorf(Incompatible, "state: %s has version %d, this program reads %d: install the later version again, or move %s away",
				filepath.Join(dir, name), v, schemaVersion, dir)
		}
	}
	return nil
}

// schemaOf is the version of a file, 0 where it has none. Of a file of lines the first
// one says it.
func schemaOf(data []byte) int {
	var is versioned
	if json.Unmarshal(data, &is) == nil {
		return is.V
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	is = versioned{}
	if json.Unmarshal(line, &is) != nil {
		return 0
	}
	return is.V
}

// sessionFile is the file session.
type sessionFile struct {
	V       int      `json:"v"`
	Session uint64   `json:"session"`
	Boots   []string `json:"boots,omitempty"` // of the last starts, see rival.go
}

// retainedList is the file retained.json.
type retainedList struct {
	V      int      `json:"v"`
	Topics []string `json:"topics"`
}

// parseRetained reads the list, and that of before versions, which was the topics alone.
func parseRetained(data []byte) ([]string, error) {
	var l retainedList
	if len(data) > 0 && data[0] == '[' {
		err := json.Unmarshal(data, &l.Topics)
		return l.Topics, err
	}
	err := json.Unmarshal(data, &l)
	return l.Topics, err
}
