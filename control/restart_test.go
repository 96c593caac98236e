// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestRestart_P46 kills a server in the middle of a job (its state directory is copied)
// and starts another on what is left.
func TestRestart_P46(t *testing.T) {
	dir := t.TempDir()
	gate := make(chan struct{})
	defer close(gate)
	old := newRig(t, &fake{runJob: func(ctx context.Context, _ Job, report func(JobProgress)) (any, error) {
		report(JobProgress{Phase: "p", Done: 1, Total: 2})
		select {
		case <-gate:
		case <-ctx.Done():
		}
		return nil, ctx.Err()
	}}, anyone)
	old.tell("me", "convert", "run", `{}`)
	old.tell("me", "convert", "wait", `{}`)
	old.await("a run", func() bool { r := old.record("me", "run"); return r != nil && r.Phase == "p" })
	version := old.record("me", "run").Version
	if err := os.CopyFS(dir+"/s", os.DirFS(old.cfg.StateDir)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/s/jobs/broken~x.json", []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}

	var ran []string
	var notes []Notice
	g := newRig(t, &fake{
		runJob: func(_ context.Context, j Job, _ func(JobProgress)) (any, error) {
			ran = append(ran, j.ID)
			return nil, nil
		},
		models: func() []Model { return nil },
	}, func(c *Config) {
		anyone(c)
		c.StateDir = dir + "/s"
		c.Notify = func(n Notice) {
			if n.Event == NoticeState {
				notes = append(notes, n)
			}
		}
	})
	if r := g.finalRecord("me", "run"); r.Status != JobFailed || !errors.Is(r.Error, Interrupted) || r.Version <= version {
		t.Errorf("the running job: %+v, version was %d", r, version)
	}
	if r := g.finalRecord("me", "wait"); r.Status != JobSucceeded {
		t.Errorf("the waiting job: %+v", r)
	}
	g.tell("me", "convert", "run", `{}`) // redelivered: not again
	g.tell("me", "convert", "last", `{}`)
	g.finalRecord("me", "last")
	if got := strings.Join(ran, " "); got != "wait last" {
		t.Errorf("ran %q", got)
	}
	if g.Session() != old.Session()+1 || len(notes) != 1 {
		t.Errorf("session %d after %d, %d notes", g.Session(), old.Session(), len(notes))
	}
}

// TestRetainedAfterRestart_P41 sees that documents of what is gone are cleared.
func TestRetainedAfterRestart_P41(t *testing.T) {
	dir := t.TempDir()
	g := newRig(t, &fake{}, func(c *Config) { c.StateDir = dir })
	g.ModelsChanged()
	g.await("the document", func() bool { return len(g.messages(g.topics.Model("tiny"))) == 1 })
	g.ModelsChanged() // the same: not again
	g.resync()
	g.await("it again after a connection", func() bool { return len(g.messages(g.topics.Model("tiny"))) == 2 })
	if err := g.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	g = newRig(t, &fake{models: func() []Model { return nil }}, func(c *Config) { c.StateDir = dir })
	g.resync()
	g.await("an empty document", func() bool {
		ms := g.messages(g.topics.Model("tiny"))
		return len(ms) == 1 && len(ms[0].payload) == 0 && ms[0].retain
	})
	g.await("the list to be empty", func() bool {
		b, err := os.ReadFile(filepath.Join(dir, retainedFile))
		return err == nil && string(b) == `{"v":1,"topics":[]}`
	})
}

func TestSession_P21(t *testing.T) {
	dir := t.TempDir()
	now := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		file string
		want uint64
	}{{"", 1}, {"17\n", 18}, {"", 19}, {"garbage", 1_800_000_001}, {"", 1_800_000_002}, {"99999999999999999999", 1_800_000_001},
		{`{"v":1,"session":41}`, 42}, {`{"v":1,"session":"x"}`, 1_800_000_001}} {
		if c.file != "" {
			if err := os.WriteFile(filepath.Join(dir, "session"), []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, _, err := nextSession(dir, now, "b")
		if err != nil || got != c.want {
			t.Errorf("after %q: %d (%v), want %d", c.file, got, err, c.want)
		}
	}
}

func TestStateThatCannotBeWritten(t *testing.T) {
	g := newRig(t, &fake{}, anyone)
	if err := os.RemoveAll(filepath.Join(g.cfg.StateDir, "jobs")); err != nil {
		t.Fatal(err)
	}
	g.tell("me", "verify", "j", `{}`)
	if r := g.finalRecord("me", "j"); r.Status != JobRejected || !errors.Is(r.Error, Internal) {
		t.Errorf("record %+v", r)
	}
	if err := os.Mkdir(filepath.Join(g.cfg.StateDir, "jobs"), 0o700); err != nil {
		t.Fatal(err)
	}
	g.tell("me", "verify", "j", `{}`)
	g.await("the next try", func() bool { return g.record("me", "j").Status == JobSucceeded })
}

// A device whose state cannot be read or written, as on a full or broken disk, starts
// and answers; each failure is told.
func TestStartsWithoutState(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"session", "dedupe.log", retainedFile} {
		if err := os.MkdirAll(filepath.Join(dir, name, "in the way"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "jobs"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var told []string
	s, err := New(Config{Device: "dev", StateDir: dir, Notify: func(n Notice) {
		mu.Lock()
		defer mu.Unlock()
		if n.Event == NoticeState {
			told = append(told, fmt.Sprint(n.Err))
		}
	}}, &fake{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if s.Session() == 0 {
		t.Error("no session number")
	}
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"session", "dedupe.log", retainedFile, "jobs"} {
		if !strings.Contains(strings.Join(told, "\n"), want) {
			t.Errorf("nobody is told of %s: %q", want, told)
		}
	}
}

// An id that could not be stored may be tried again.
func TestRememberForgetsWhatItCannotStore(t *testing.T) {
	dir := t.TempDir()
	j, _, _ := openJournal(dir, 10)
	log := filepath.Join(dir, "dedupe.log")
	if err := os.Mkdir(log, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := j.remember(key{"me", "a"}, "x"); err == nil || j.seen(key{"me", "a"}) != "" || len(j.log) != 0 {
		t.Errorf("got %v, seen %q, log %v", err, j.seen(key{"me", "a"}), j.log)
	}
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	if err := j.remember(key{"me", "a"}, "x"); err != nil || j.seen(key{"me", "a"}) != "x" {
		t.Errorf("after the disk has room: got %v, seen %q", err, j.seen(key{"me", "a"}))
	}
}

// What a cut left half written goes at the next start, and nothing else does.
func TestCutWritesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".session.123", ".retained.json.9", ".dedupe.log.7", ".session", "session", ".windhover-x.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, bad := openJournal(dir, 10); len(bad) > 0 {
		t.Fatal(bad)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range left {
		names = append(names, filepath.Base(path))
	}
	if got := strings.Join(names, " "); got != ".session .windhover-x.tmp jobs session" {
		t.Errorf("left: %s", got)
	}
}

func TestDedupeLogIsBounded_P29(t *testing.T) {
	dir := t.TempDir()
	j, _, bad := openJournal(dir, 10)
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	for i := range 100 {
		if err := j.remember(key{"me", fmt.Sprint(i)}, strings.Repeat("a", 64)); err != nil {
			t.Fatal(err)
		}
	}
	if st, err := os.Stat(filepath.Join(dir, "dedupe.log")); err != nil || st.Size() > 5000 {
		t.Errorf("size %d (%v)", st.Size(), err)
	}
	j, _, bad = openJournal(dir, 10)
	if len(bad) > 0 || j.seen(key{"me", "99"}) == "" || j.seen(key{"me", "90"}) == "" || j.seen(key{"me", "89"}) != "" {
		t.Errorf("remembered %v (%v)", j.log, bad)
	}
}
