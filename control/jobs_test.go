// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
