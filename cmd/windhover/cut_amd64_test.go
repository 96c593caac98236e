// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"windhover/control"
	"windhover/control/ota"
	"windhover/internal/testcut"
	"windhover/internal/testmodel"
)

// story is something that is done to a box, with a cut at any change of its disk.
type story struct {
	name     string
	base     string // state of the box before
	document []byte // that the broker has retained
	// command is given, if its type is not empty, as soon as the box is online.
	command, params string

	first []string // what may answer after the cut, by digest
	last  string   // what answers in the end
	floor int64    // below which the box does not go in the end
	over  func(b *cutBox) bool
}

// stage is what the stories play with: two versions of a model, a bad one, and boxes
// that have them.
type stage struct {
	*publisher
	one, two, bad ota.Model
	text          map[string]string // what a version says, by its digest
	has1, has2    string            // states
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{publisher: newPublisher(t), text: map[string]string{}}
	s.one = s.publish(t, 1, modelBytes(t, 1, nil))
	s.two = s.publish(t, 2, modelBytes(t, 2, nil))
	s.bad = s.publish(t, 3, modelBytes(t, 3, func(c *testmodel.Config) { c.Bare = true })) // nothing to read text with
	prepare := func(from string, rev int64, m ota.Model) string {
		b := newCutBox(t, s.publisher, from)
		b.ear.Publish(control.GroupDesired("all"), s.document(rev, m, 0))
		p := b.start(testcut.Cut{})
		if !b.online(p) || !b.until("a version is installed", p, func() bool { return nowCurrent(rev)(b) }) {
			t.Fatal("the box ended")
		}
		sum, text := b.ask(p)
		if sum != m.SHA256.String() || text == "" {
			t.Fatalf("%s answers %q, want %s", sum, text, m.SHA256)
		}
		s.text[sum] = text
		b.stop(p)
		if bad := b.whole(); bad != "" {
			t.Fatal(bad)
		}
		t.Logf("installing %s takes %d changes", m.Version, len(p.Changes()))
		return b.state
	}
	s.has1 = prepare("", 1, s.one)
	s.has2 = prepare(s.has1, 2, s.two)
	if s.text[s.one.SHA256.String()] == s.text[s.two.SHA256.String()] {
		t.Fatal("both versions say the same")
	}
	return s
}

// nowCurrent is a box that has made a document true; nowRefused one that has given it up.
func nowCurrent(rev int64) func(*cutBox) bool {
	return func(b *cutBox) bool { return b.reported.Rev == rev && b.reported.Status == control.DesiredCurrent }
}

func nowRefused(rev int64) func(*cutBox) bool {
	return func(b *cutBox) bool { return b.reported.Rev == rev && b.reported.Status == control.DesiredFailed }
}

// jobEnded is a box whose last command has come to an end.
func jobEnded(b *cutBox) bool {
	r, known := b.jobs[b.given]
	return known && r.Final()
}

func (s *stage) stories(t *testing.T) []story {
	t.Helper()
	one, two := s.one.SHA256.String(), s.two.SHA256.String()
	install, err := json.Marshal(map[string]any{"record": s.record(s.two), "urls": s.two.URLs, "health": ota.Health{MaxErrorRatio: 0.5}})
	if err != nil {
		t.Fatal(err)
	}
	return []story{
		{name: "document", base: s.has1, document: s.document(2, s.two, 0), first: []string{one, two}, last: two, floor: 2, over: nowCurrent(2)},
		{name: "bad document", base: s.has1, document: s.document(2, s.bad, 0), first: []string{one}, last: one, floor: 1, over: nowRefused(2)},
		{name: "install", base: s.has1, command: "model_install", params: string(install), first: []string{one, two}, last: two, floor: 2, over: jobEnded},
		{name: "rollback", base: s.has2, command: "model_rollback", params: `{"model":"m"}`, first: []string{one, two}, last: one, floor: 2, over: jobEnded},
		{name: "verify", base: s.has1, command: "verify", params: `{"model":"m"}`, first: []string{one}, last: one, floor: 1, over: jobEnded},
	}
}

// cutPoints is how many cuts of each kind a story gets; all of them with
// WINDHOVER_MATRIX=full.
const cutPoints = 2

// A daemon is killed before, in or after any change that it makes to its disk, finds the
// disk full there, or is asked to stop. What answers afterwards is the old version or the new one, whole;
// what was asked for comes to its end without anybody's help, or says that it did not;
// nothing half done is left, and the floor is where it belongs.
func TestCutAnywhere(t *testing.T) {
	s := newStage(t)
	for _, st := range s.stories(t) {
		t.Run(st.name, func(t *testing.T) {
			total := len(s.play(t, st, testcut.Cut{}).Changes())
			t.Logf("%d changes", total)
			var cuts atomic.Int64
			asked := 0
			t.Run("cuts", func(t *testing.T) {
				for _, kind := range []testcut.Kind{testcut.Before, testcut.Torn, testcut.After, testcut.Full, testcut.Stop} {
					for _, at := range cutsOf(total, kind) {
						asked++
						t.Run(fmt.Sprintf("%s %d", kind, at), func(t *testing.T) {
							t.Parallel()
							if s.play(t, st, testcut.Cut{At: at, Kind: kind}).Cut() != "" {
								cuts.Add(1)
							}
						})
					}
				}
			})
			t.Logf("%d cuts of %d", cuts.Load(), asked)
			if int(cuts.Load()) < asked/2 { // runs differ by a few changes, and writes are some of them
				t.Error("too few of them came")
			}
		})
	}
}

// cutsOf chooses changes.
func cutsOf(total int, kind testcut.Kind) (list []int) {
	if kind == testcut.Torn {
		total /= 3 // about as many are writes
	}
	points := cutPoints
	switch {
	case os.Getenv("WINDHOVER_MATRIX") == "full":
		points = total
	case testing.Short():
		points = 1
	}
	for i := range points {
		list = append(list, 1+(total*i+total*(1+int(kind))/6)/points)
	}
	return list
}

// play plays a story with a cut, and looks at what is left of it.
func (s *stage) play(t *testing.T, st story, cut testcut.Cut) *testcut.Process {
	t.Helper()
	b := newCutBox(t, s.publisher, st.base)
	if st.document != nil {
		b.ear.Publish(control.GroupDesired("all"), st.document)
	}
	p := b.start(cut)
	defer func() {
		if t.Failed() {
			t.Logf("cut at %s", p.Cut())
		}
	}()
	act := func(p *testcut.Process) bool {
		if !b.online(p) {
			return false
		}
		if st.command != "" && b.given == "" {
			b.give(st.command, "j1", st.params)
		}
		return true
	}
	done := func() bool { return st.over(b) || cut.Kind == testcut.Full && p.Cut() != "" }
	if act(p) && b.until("the end of the story", p, done) {
		if cut.Kind == testcut.Full && p.Cut() != "" {
			s.answers(b, p, st.first) // on a full disk too
		}
		p.Signal(syscall.SIGTERM)
	}
	ws, err := p.Wait()
	killed := ws.Signaled() && ws.Signal() == syscall.SIGKILL && p.Cut() != "" && cut.Kind.Kills()
	stopped := ws.Signaled() && ws.Signal() == syscall.SIGTERM && p.Cut() != "" && cut.Kind == testcut.Stop // before it listens
	if err != nil || !killed && !stopped && ws.ExitStatus() != 0 {
		t.Fatalf("the box ends by itself: %v, %v", ws, err)
	}
	again := b.start(testcut.Cut{})
	if !act(again) {
		t.Fatal("the box does not start again")
	}
	s.answers(b, again, st.first)
	if !b.until("the end of the story after all", again, func() bool { return st.over(b) }) {
		t.Fatal("the box ends by itself")
	}
	if st.command != "" {
		s.retry(b, again, st, cut)
	}
	s.answers(b, again, []string{st.last})
	b.stop(again)
	s.judge(t, b, st)
	return p
}

// retry gives a command again that has said that it did not come to its end, under
// another id.
func (s *stage) retry(b *cutBox, p *testcut.Process, st story, cut testcut.Cut) {
	b.t.Helper()
	r := b.jobs[b.given]
	if r.Status == control.JobSucceeded {
		return
	}
	switch {
	case r.Error == nil:
		b.t.Errorf("the command ended so: %+v", r)
	case r.Error.Code == control.Interrupted && st.command != "model_install":
	case r.Error.Code == control.InsufficientStore && cut.Kind == testcut.Full:
	case r.Error.Code == control.ShuttingDown && cut.Kind == testcut.Stop && r.Status == control.JobRejected:
	default:
		b.t.Errorf("the command ended so: %+v: %v", r, r.Error)
	}
	b.give(st.command, "j2", st.params)
	if !b.until("the command after all", p, func() bool { return st.over(b) }) {
		b.t.Fatal("the box ends by itself")
	}
	r = b.jobs[b.given]
	done := st.command == "model_rollback" && r.Error != nil && r.Error.Code == control.UnknownModel // the first time
	if r.Status != control.JobSucceeded && !done {
		b.t.Errorf("the command ended so the second time: %+v: %v", r, r.Error)
	}
}

// give gives a command.
func (b *cutBox) give(typ, id, params string) {
	b.t.Helper()
	b.given = id
	ctx, cancel := context.WithCancel(context.Background())
	c, err := control.DialClient(ctx, control.ClientConfig{Endpoint: control.Endpoint{URL: b.broker.URL()}, Device: "box", Name: "ops"})
	if err != nil {
		cancel()
		b.t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = c.Command(ctx, typ, id, []byte(params), nil) // the records say what becomes of it
	}()
	b.t.Cleanup(func() { cancel(); <-gone; c.Close() })
}

// answers holds what answers against what may.
func (s *stage) answers(b *cutBox, p *testcut.Process, may []string) {
	b.t.Helper()
	if sum, text := b.ask(p); !slices.Contains(may, sum) || text != s.text[sum] {
		b.t.Fatalf("%s answers %q; want one of %v", sum, text, may)
	}
}

// judge looks at what a story has left on the disk of a box that has stopped.
func (s *stage) judge(t *testing.T, b *cutBox, st story) {
	t.Helper()
	if bad := b.whole(); bad != "" {
		t.Error(bad)
	}
	state := b.remembered()
	m := state.Models["m"]
	if m == nil || m.Current == nil || m.Tentative || m.Update != nil || m.Next != nil || m.Current.SHA256.String() != st.last {
		t.Errorf("remembered: %+v", m)
	}
	if f := state.Memory.Floors["m"]; f != st.floor {
		t.Errorf("the floor is %d, want %d", f, st.floor)
	}
	for id, r := range b.jobs {
		if !r.Final() {
			t.Errorf("job %s is %s for ever", id, r.Status)
		}
	}
}
