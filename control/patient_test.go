// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"testing"
)

// patient is a backend whose convert jobs work and whose model_install jobs wait.
type patient struct{ *fake }

func (patient) JobTypes() []string      { return []string{"convert", "model_install"} }
func (patient) Beside(typ string) bool  { return typ == "model_install" }
func (patient) Resumes(typ string) bool { return typ == "model_install" }
func both(c *Config)                    { c.Policy.Anonymous = []string{"convert", "model_install"} }
func blocks(started chan string, end chan struct{}) func(context.Context, Job, func(JobProgress)) (any, error) {
	return func(ctx context.Context, j Job, _ func(JobProgress)) (any, error) {
		started <- j.ID
		select {
		case <-end:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Jobs that only wait run beside each other and beside the one that works, which has
// no other beside it.
func TestPatientJobs_P132(t *testing.T) {
	started, end := make(chan string, 8), make(chan struct{})
	g := newRig(t, patient{&fake{runJob: blocks(started, end)}}, both)
	for _, j := range []struct{ typ, id string }{{"convert", "c1"}, {"convert", "c2"}, {"model_install", "i1"}, {"model_install", "i2"}} {
		g.tell("me", j.typ, j.id, `{}`)
	}
	ran := map[string]bool{}
	for range 3 {
		ran[<-started] = true
	}
	if !ran["c1"] || !ran["i1"] || !ran["i2"] {
		t.Errorf("running: %v", ran)
	}
	if r := g.record("me", "c2"); r.Status != JobQueued {
		t.Errorf("the second job that works is %s", r.Status)
	}
	g.tell("me", jobCancel, "i1", `{}`)
	if r := g.finalRecord("me", "i1"); r.Status != JobCanceled {
		t.Errorf("canceled: %+v", r)
	}
	close(end)
	for _, id := range []string{"c1", "c2", "i2"} {
		if r := g.finalRecord("me", id); r.Status != JobSucceeded {
			t.Errorf("%s: %+v", id, r)
		}
	}
}

// A job that can be run again goes on after a restart, orderly or not, as another
// attempt of the same job; others end as interrupted.
func TestJobsResume_P131(t *testing.T) {
	dir := t.TempDir()
	at := func(c *Config) { both(c); c.StateDir = dir }
	started, never := make(chan string, 8), make(chan struct{})
	g := newRig(t, patient{&fake{runJob: blocks(started, never)}}, at)
	g.tell("me", "model_install", "i", `{"a":1}`)
	g.tell("me", "convert", "c", `{}`)
	<-started
	<-started
	version := g.record("me", "i").Version
	if err := g.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got Job
	g = newRig(t, patient{&fake{runJob: func(_ context.Context, j Job, _ func(JobProgress)) (any, error) {
		got = j
		return map[string]bool{"rolled_back": true}, Errorf(LoadFailed, "no")
	}}}, at)
	r := g.finalRecord("me", "i")
	if r.Status != JobFailed || !errors.Is(r.Error, LoadFailed) || r.Attempt != 2 || r.Version <= version || string(got.Params) != `{"a":1}` {
		t.Errorf("resumed: %+v with %s", r, got.Params)
	}
	if string(r.Result) != `{"rolled_back":true}` {
		t.Errorf("result beside the error: %s", r.Result)
	}
	if r := g.finalRecord("me", "c"); r.Status != JobFailed || !errors.Is(r.Error, Interrupted) {
		t.Errorf("interrupted: %+v", r)
	}
}

// Documents of the fleet come to who takes them, retained or not, and no others do.
func TestDesiredTopics(t *testing.T) {
	type doc struct{ target, payload string }
	var got []doc
	g := newRig(t, &fake{}, func(c *Config) {
		c.Groups = []string{"all"}
		c.Desired = func(target string, payload []byte) { got = append(got, doc{target, string(payload)}) }
	})
	if f := g.wanted(); len(f) != 2 || f[0] != g.topics.Desired() || f[1] != "windhover/v1/_group/all/desired" {
		t.Errorf("filters %q", f)
	}
	acked := 0
	for _, in := range []inbound{
		{topic: g.topics.Desired(), payload: []byte("one"), retained: true},
		{topic: GroupDesired("all"), payload: []byte("two")},
		{topic: GroupDesired("all")},
		{topic: "windhover/v1/_group/../desired", payload: []byte("bad")},
	} {
		in.ack = func() { acked++ }
		g.command(in)
	}
	want := []doc{{"device/" + g.topics.Device, "one"}, {"group/all", "two"}, {"group/all", ""}}
	if len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] || acked != 4 {
		t.Errorf("got %q, %d acknowledged", got, acked)
	}
	if _, err := New(Config{Device: "d", StateDir: t.TempDir(), Groups: []string{"A/b"}}, &fake{}); err == nil {
		t.Error("a group that is none is taken")
	}
	g.Report(Reported{Rev: 4, Status: DesiredCurrent})
	g.await("the report", func() bool { return len(g.messages(g.topics.Reported())) == 1 })
	m := g.messages(g.topics.Reported())[0]
	if r, err := DecodeReported(m.payload); err != nil || !m.retain || r.Rev != 4 || r.V != 1 {
		t.Errorf("reported %s, retained %v, %v", m.payload, m.retain, err)
	}
}
