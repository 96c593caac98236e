// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// night is how long a box is suspended. What a program sees of that is that the time of
// day goes on, and the time that passes does not: Go asks for that by a clock which the
// kernel lets stand still meanwhile.
const night = 8 * time.Hour

// A suspend takes no time from what is in work or waits. What the broker kept meanwhile
// is as old as its sender says, and deadlines go on to be kept.
func TestSuspendBesideRequests_P119(t *testing.T) {
	step := make(chan struct{})
	g, c := stepped(t, &fake{generate: until(step, 1)}, "")
	at := func(after time.Duration) string { return c.Now().Add(after).Format(time.RFC3339Nano) }
	g.ask("me", OpGenerate, `{"id":"run","prompt":"x","deadline_ms":600000}`)
	g.ask("you", OpGenerate, fmt.Sprintf(`{"id":"waits","prompt":"x","deadline_ms":600000,"ttl_ms":600000,"sent_at":%q}`, at(-time.Minute)))
	c.Step(night)
	g.ask("them", OpGenerate, fmt.Sprintf(`{"id":"old","prompt":"x","ttl_ms":600000,"sent_at":%q}`, at(-time.Hour)))
	g.ask("them", OpGenerate, fmt.Sprintf(`{"id":"new","prompt":"x","ttl_ms":600000,"sent_at":%q}`, at(-time.Minute)))
	g.ask("them", OpGenerate, `{"id":"short","prompt":"x","deadline_ms":20}`)
	if r := g.end("them", "old"); !errors.Is(r.Err, Expired) {
		t.Errorf("what was sent in the night and lives for ten minutes ends as %+v", r)
	}
	if r := g.end("them", "short"); !errors.Is(r.Err, DeadlineExceeded) {
		t.Errorf("what has a deadline after the night ends as %+v", r)
	}
	close(step)
	for id, client := range map[string]string{"run": "me", "waits": "you", "new": "them"} {
		if r := g.end(client, id); r.Done == nil || r.Done.Finish != FinishLength || r.Done.Timing.TotalMS >= 600000 || r.Done.Timing.QueueMS < 0 {
			t.Errorf("%s ends as %+v", id, r)
		}
	}
}

// A job goes on, and with it what is remembered; what a command may wait for a box that
// is suspended, its sender says.
func TestSuspendBesideJobs(t *testing.T) {
	dir := t.TempDir()
	said := make(chan JobProgress)
	g, c := stepped(t, &fake{runJob: func(_ context.Context, _ Job, report func(JobProgress)) (any, error) {
		for p := range said {
			report(p)
		}
		return nil, nil
	}}, dir)
	at := func(after time.Duration) string { return c.Now().Add(after).Format(time.RFC3339Nano) }
	g.ask("me", OpGenerate, `{"id":"r","prompt":"a b"}`)
	g.end("me", "r")
	g.tell("me", "verify", "before", `[]`)
	g.finalRecord("me", "before")
	g.tell("me", "verify", "j", `{}`)
	said <- JobProgress{Phase: "reading", Total: 100}
	g.await("the phase", func() bool { return g.record("me", "j").Phase == "reading" })
	kept, dawn := at(night+time.Hour), at(night-time.Hour)
	c.Step(night)
	g.desk.sweep()
	g.jobs.sweep()
	g.ask("me", OpFetch, `{"id":"f","target":"r","from_seq":0}`)
	if r := g.end("me", "f"); r.Done == nil || !*r.Done.Found {
		t.Errorf("of the answer before the night fetch finds %+v", r)
	}
	g.tell("me", "verify", "late", fmt.Sprintf(`{"expires_at":%q}`, dawn))
	if r := g.finalRecord("me", "late"); r.Status != JobRejected || r.Error.Code != Expired {
		t.Errorf("a command that was to be carried out in the night ends as %+v", r)
	}
	g.tell("me", "verify", "next", fmt.Sprintf(`{"expires_at":%q}`, kept))
	said <- JobProgress{Phase: "writing", Total: 100}
	close(said)
	for _, id := range []string{"j", "next"} {
		if r := g.finalRecord("me", id); r.Status != JobSucceeded {
			t.Errorf("%s ends as %+v", id, r)
		}
	}
	if r := g.record("me", "j"); r.UpdatedAt.Sub(r.CreatedAt) < night {
		t.Errorf("the record says that it took %v, on a clock on which it took a night", r.UpdatedAt.Sub(r.CreatedAt))
	}
	if g.record("me", "before") == nil {
		t.Error("a record of before is gone")
	}
}
