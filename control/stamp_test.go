// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What the name of a job's file says counts over what is in it, until it is written
// anew; a file that says less goes.
func TestStampedJobs_P182(t *testing.T) {
	dir := t.TempDir()
	open := func() (*journal, map[string]JobRecord) {
		j, files, bad := openJournal(dir, 10)
		if len(bad) > 0 {
			t.Fatal(bad)
		}
		recs := map[string]JobRecord{}
		for _, f := range files {
			if _, twice := recs[f.Record.ID]; twice {
				t.Errorf("job %s is there twice", f.Record.ID)
			}
			recs[f.Record.ID] = f.Record
		}
		return j, recs
	}
	rec := func(id, status string, version int, e *Error) JobRecord {
		return JobRecord{V: 1, ID: id, Client: "me", Type: "verify", Status: status, Version: version, Attempt: 1, Error: e, CreatedAt: time.Unix(1, 0)}
	}
	store := func(j *journal, r JobRecord) {
		t.Helper()
		if err := j.put(jobFile{Record: r, Params: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	stamp := func(j *journal, r JobRecord) {
		t.Helper()
		if err := j.stamp(r); err != nil {
			t.Fatal(err)
		}
	}
	j, _ := open()
	for _, id := range []string{"a", "b", "c"} {
		store(j, rec(id, JobRunning, 2, nil))
	}
	stamp(j, rec("a", JobSucceeded, 7, nil))
	stamp(j, rec("b", JobRunning, 3, nil))
	stamp(j, rec("b", JobFailed, 4, Errorf(DigestMismatch, "lost")))
	if err := j.stamp(rec("never stored", JobQueued, 1, nil)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a job without a file: %v", err)
	}
	j, recs := open()
	if r := recs["a"]; r.Status != JobSucceeded || r.Version != 7 || r.Error != nil {
		t.Errorf("a: %+v", r)
	}
	if r := recs["b"]; r.Status != JobFailed || r.Version != 4 || !errors.Is(r.Error, DigestMismatch) {
		t.Errorf("b: %+v", r)
	}
	if r := recs["c"]; r.Status != JobRunning || r.Version != 2 {
		t.Errorf("c: %+v", r)
	}
	// Written anew; and a cut before the other name went.
	store(j, rec("a", JobSucceeded, 8, nil))
	data, err := os.ReadFile(filepath.Join(dir, "jobs", jobName("me", "c")))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "jobs", "me~c~1~queued.json"), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	j, recs = open()
	if len(recs) != 3 || recs["a"].Version != 8 || recs["c"].Version != 2 || recs["c"].Status != JobRunning {
		t.Errorf("afterwards %+v", recs)
	}
	// The end of a job whose file cannot be written is known by the file's name.
	stamp(j, rec("b", JobRunning, 5, nil))
	inTheWay := filepath.Join(dir, "jobs", jobName("me", "b"))
	if err := os.Mkdir(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := j.put(jobFile{Record: rec("b", JobSucceeded, 6, nil), Params: []byte("{}")}); err == nil {
		t.Error("what was not written whole is no error")
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	j, recs = open()
	if r := recs["b"]; r.Status != JobSucceeded || r.Version != 6 {
		t.Errorf("not written: %+v", r)
	}
	for _, id := range []string{"a", "b", "c"} {
		if err := j.remove("me", id); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(dir, "jobs")); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
