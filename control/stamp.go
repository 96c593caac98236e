// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// stamp says in the name of a job's file what could not be written into it: version and
// state, and the code of an error. A name needs no room on a full disk, and so a job that
// has ended does not run again, and its version does not go back. What it resulted in is
// lost. It returns an error when that does not work either, or there is no file.
func (j *journal) stamp(r JobRecord) error {
	k := key{r.Client, r.ID}
	old := j.stamped[k]
	if old == "" {
		old = jobName(r.Client, r.ID)
	}
	name := fmt.Sprintf("%s~%s~%d~%s.json", r.Client, r.ID, r.Version, r.Status)
	if r.Error != nil {
		name = fmt.Sprintf("%s~%s~%d~%s~%s.json", r.Client, r.ID, r.Version, r.Status, r.Error.Code.Name)
	}
	if err := os.Rename(filepath.Join(j.jobs(), old), filepath.Join(j.jobs(), name)); err != nil {
		return fmt.Errorf("control: state: %w", err)
	}
	j.stamped[k] = name
	return syncDir(j.jobs())
}

// drop removes the stamped file of a job, if it has one.
func (j *journal) drop(k key) error {
	name := j.stamped[k]
	if name == "" {
		return nil
	}
	delete(j.stamped, k)
	if err := os.Remove(filepath.Join(j.jobs(), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// unstamp takes over what the name of a job's file says.
func (f *jobFile) unstamp(name string) error {
	part := strings.Split(strings.TrimSuffix(name, ".json"), "~")
	if len(part) < 4 {
		return nil
	}
	version, err := strconv.Atoi(part[2])
	if err != nil {
		return fmt.Errorf("control: job file %q: %w", name, err)
	}
	if version < f.Record.Version {
		return nil // it was written anew, and the cut came before the other name went
	}
	r := &f.Record
	r.Version, r.Status, r.Error = version, part[3], nil
	if len(part) > 4 {
		r.Error = Errorf(codeByName(part[4], Internal.Status), "the disk was full when the job ended, and nothing else is known of it")
	}
	return nil
}

// admit adds a job that was read from the file of a name. Of two files of one job the
// later one counts, and the other goes.
func (j *journal) admit(files []jobFile, f jobFile, name string) []jobFile {
	k := key{f.Record.Client, f.Record.ID}
	if name != jobName(k.client, k.id) {
		j.stamped[k] = name
	}
	for i := range files {
		if files[i].Record.Client != k.client || files[i].Record.ID != k.id {
			continue
		}
		if f.Record.Version > files[i].Record.Version {
			files[i] = f
		}
		return files
	}
	return append(files, f)
}
