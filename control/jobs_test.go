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

// anyone lets everybody convert and verify, as the embedded broker without users does.
func anyone(c *Config) { c.Policy.Anonymous = []string{"convert", "verify"} }

func TestJob_P45(t *testing.T) {
	var got Job
	f := &fake{runJob: func(_ context.Context, j Job, report func(JobProgress)) (any, error) {
		got = j
		report(JobProgress{Phase: "reading", Done: 1, Total: 4})
		report(JobProgress{Phase: "writing", Done: 2, Total: 4})
		return map[string]int{"tensors": 3}, nil
	}}
	g := newRig(t, f, anyone)
	g.tell("me", "convert", "j1", `{"source":"x.gguf","mode":"q8"}`)
	r := g.finalRecord("me", "j1")
	if r.Status != JobSucceeded || string(r.Result) != `{"tensors":3}` || r.Progress.Pct != 100 || r.Attempt != 1 || r.Error != nil {
		t.Errorf("record %+v", r)
	}
	if got.Type != "convert" || got.ID != "j1" || got.Client != "me" || string(got.Params) != `{"source":"x.gguf","mode":"q8"}` {
		t.Errorf("backend got %+v", got)
	}
	var states []string
	for i, m := range g.messages(g.topics.Job("me", "j1")) {
		r, err := DecodeJob(m.payload)
		if err != nil || !m.retain || m.qos != 1 {
			t.Fatalf("record %d: %v, retain %v", i, err, m.retain)
		}
		if i > 0 && r.Version <= 1 {
			t.Errorf("record %d has version %d", i, r.Version)
		}
		if s := r.Status + "/" + r.Phase; len(states) == 0 || states[len(states)-1] != s {
			states = append(states, s)
		}
	}
	if s := strings.Join(states, " "); !strings.HasSuffix(s, "succeeded/writing") {
		t.Errorf("states %s", s)
	}
}

func TestJobRefusals_P42(t *testing.T) {
	cases := []struct {
		name, client, typ, payload string
		want                       Code
	}{
		{"unknown type", "ops1", "model_install", `{}`, Unsupported},
		{"forbidden", "app", "convert", `{}`, Forbidden},
		{"not json", "ops1", "convert", `{`, BadRequest},
		{"null", "ops1", "convert", `null`, BadRequest},
		{"array", "ops1", "convert", `[]`, BadRequest},
		{"large", "ops1", "convert", `{"a":"` + strings.Repeat("x", 70<<10) + `"}`, PayloadTooLarge},
		{"expired", "ops1", "convert", `{"expires_at":"2026-11-29T11:00:00Z"}`, Expired},
		{"ttl", "ops1", "convert", `{"sent_at":"2026-11-29T11:00:00Z","ttl_ms":1000}`, Expired},
		{"bad time", "ops1", "convert", `{"expires_at":"soon"}`, BadRequest},
		{"unknown job", "ops1", "job_cancel", `{"target":"nope"}`, UnknownJob},
		{"other's job", "ops1", "job_cancel", `{"target":"nope","client":"app"}`, Forbidden},
	}
	g := newRig(t, &fake{}, func(c *Config) {
		c.Policy = Policy{EnforcesACL: true, Rules: []Rule{{"ops*", []string{"convert", "model_*"}}}}
	})
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			id := fmt.Sprintf("j%d", i)
			g.tell(c.client, c.typ, id, c.payload)
			r := g.finalRecord(c.client, id)
			if r.Status != JobRejected || !errors.Is(r.Error, c.want) {
				t.Errorf("%s %v, want rejected %v", r.Status, r.Error, c.want)
			}
		})
	}
	g.tell("ops1", "convert", "j2", `{}`) // a refused id may be tried again
	g.await("the second try", func() bool { return g.record("ops1", "j2").Status == JobSucceeded })
	if v := g.record("ops1", "j2").Version; v < 3 {
		t.Errorf("version %d: it does not go on from the refusal", v)
	}
	g.command(inbound{topic: g.topics.Command("convert", "ops1", "j99"), ack: func() {}})
	g.command(inbound{topic: g.topics.Command("convert", "ops1", "j98"), retained: true, ack: func() {}})
	if g.record("ops1", "j99") != nil || g.record("ops1", "j98") != nil {
		t.Error("an empty or replayed command was taken")
	}
}

func TestJobDuplicates_P47(t *testing.T) {
	runs := 0
	gate := make(chan struct{})
	g := newRig(t, &fake{runJob: func(context.Context, Job, func(JobProgress)) (any, error) {
		runs++
		<-gate
		return nil, nil
	}}, anyone)
	acks := 0
	tell := func(payload string) {
		g.command(inbound{topic: g.topics.Command("verify", "me", "j"), payload: []byte(payload), ack: func() { acks++ }})
	}
	tell(`{"file":"a"}`)
	tell(`{"file":"a"}`)
	tell(`{"file":"b"}`)
	if r := g.end("me", "j"); !errors.Is(r.Err, DuplicateID) {
		t.Errorf("other payload: %+v", r)
	}
	close(gate)
	g.finalRecord("me", "j")
	tell(`{"file":"a"}`)
	if runs != 1 || acks != 4 {
		t.Errorf("%d runs, %d acknowledgements", runs, acks)
	}
}

func TestJobCancel_P44(t *testing.T) {
	g := newRig(t, &fake{runJob: func(ctx context.Context, j Job, _ func(JobProgress)) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}, anyone)
	g.tell("me", "convert", "run", `{}`)
	g.tell("me", "convert", "wait", `{}`)
	g.await("a run", func() bool { r := g.record("me", "run"); return r != nil && r.Status == JobRunning })
	g.tell("me", "job_cancel", "wait", `{}`)
	if r := g.finalRecord("me", "wait"); r.Status != JobCanceled || r.Type != "convert" {
		t.Errorf("waiting job: %+v", r)
	}
	g.tell("me", "job_cancel", "c1", `{"target":"run"}`)
	if r := g.finalRecord("me", "run"); r.Status != JobCanceled || !errors.Is(r.Error, Canceled) {
		t.Errorf("running job: %+v", r)
	}
	if r := g.finalRecord("me", "c1"); r.Status != JobSucceeded || r.Type != "job_cancel" {
		t.Errorf("the command: %+v", r)
	}
	g.tell("me", "job_cancel", "run", `{}`) // nothing left to end: the record again
	if r := g.record("me", "run"); r.Status != JobCanceled {
		t.Errorf("after the end: %+v", r)
	}
	g.tell("me", "job_cancel", "run", `{"target":"none"}`) // must not overwrite the job's record
	if r := g.end("me", "run"); !errors.Is(r.Err, UnknownJob) || g.record("me", "run").Type != "convert" {
		t.Errorf("got %+v", r)
	}
}

func TestJobFailures(t *testing.T) {
	for name, c := range map[string]struct {
		run  func() (any, error)
		want Code
	}{
		"code":        {func() (any, error) { return nil, Errorf(FormatInvalid, "bad magic") }, FormatInvalid},
		"plain":       {func() (any, error) { return nil, errors.New("x") }, Internal},
		"panic":       {func() (any, error) { panic("x") }, Internal},
		"huge result": {func() (any, error) { return strings.Repeat("x", 100<<10), nil }, Internal},
		"no json":     {func() (any, error) { return make(chan int), nil }, Internal},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, &fake{runJob: func(context.Context, Job, func(JobProgress)) (any, error) { return c.run() }}, anyone)
			g.tell("me", "verify", "j", `{}`)
			if r := g.finalRecord("me", "j"); r.Status != JobFailed || !errors.Is(r.Error, c.want) || string(r.Result) != "{}" {
				t.Errorf("record %+v", r)
			}
		})
	}
}

func TestJobQueueBound_P28(t *testing.T) {
	gate := make(chan struct{})
	g := newRig(t, &fake{runJob: func(context.Context, Job, func(JobProgress)) (any, error) { <-gate; return nil, nil }},
		func(c *Config) { anyone(c); c.Limits.Jobs = 2 })
	g.tell("me", "verify", "j0", `{}`)
	g.await("a run", func() bool { r := g.record("me", "j0"); return r != nil && r.Status == JobRunning })
	for i := 1; i < 4; i++ {
		g.tell("me", "verify", fmt.Sprintf("j%d", i), `{}`)
	}
	if r := g.finalRecord("me", "j3"); r.Status != JobRejected || !errors.Is(r.Error, QueueFull) || r.Error.RetryAfter <= 0 {
		t.Errorf("fourth: %+v", r)
	}
	close(gate)
	if r := g.finalRecord("me", "j2"); r.Status != JobSucceeded {
		t.Errorf("third: %+v", r)
	}
}

func TestJobRecordsGo_P30(t *testing.T) {
	g := newRig(t, &fake{}, func(c *Config) { anyone(c); c.Limits.KeptJobs = 3 })
	cleared := func(id string) bool {
		ms := g.messages(g.topics.Job("me", id))
		last := ms[len(ms)-1]
		return len(last.payload) == 0 && last.retain
	}
	for i := range 5 {
		id := fmt.Sprintf("j%d", i)
		g.tell("me", "verify", id, `{}`)
		g.finalRecord("me", id)
	}
	g.await("two to go", func() bool { return cleared("j0") && cleared("j1") })
	if cleared("j2") {
		t.Error("three records are to be kept")
	}
	g.clock.advance(25 * time.Hour)
	g.jobs.sweep()
	g.await("all to go", func() bool { return cleared("j2") && cleared("j4") })
	g.tell("me", "verify", "j4", `{}`) // the record is gone, the id is not
	if r := g.end("me", "j4"); !errors.Is(r.Err, DuplicateID) {
		t.Errorf("a command ran twice: %+v", r)
	}
	if files, _ := os.ReadDir(filepath.Join(g.cfg.StateDir, "jobs")); len(files) != 0 {
		t.Errorf("%d job files left", len(files))
	}
}

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

func TestLocalJobs(t *testing.T) {
	g := newRig(t, &fake{}, nil) // the policy allows nobody; this machine may
	rec, err := g.SubmitJob("local", "verify", "j1", []byte(`{}`))
	if err != nil || rec.Status != JobQueued {
		t.Fatalf("%+v %v", rec, err)
	}
	g.finalRecord("local", "j1")
	if _, err := g.SubmitJob("lo cal", "verify", "j1", []byte(`{}`)); !errors.Is(err, BadRequest) {
		t.Errorf("got %v", err)
	}
	if js := g.Jobs(); len(js) != 1 || js[0].Status != JobSucceeded {
		t.Errorf("jobs %+v", js)
	}
	if err := g.CancelJob("local", "j1"); err != nil {
		t.Error(err)
	}
}
