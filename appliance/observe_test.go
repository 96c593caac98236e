// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"windhover/control"
	"windhover/internal/testmodel"
)

// trialRig is a rig on which updates are on trial for five minutes, with an update on
// trial already.
type trialRig struct {
	*rig
	state    string
	old, new string // digests
}

func newTrialRig(t *testing.T) *trialRig {
	t.Helper()
	r := &trialRig{state: t.TempDir()}
	r.rig = newRig(t, r.state)
	r.observing = 5 * time.Minute
	r.drops(t, 0)
	r.old = r.serves(t, false)
	r.drops(t, 1)
	r.new = r.serves(t, true)
	return r
}

// drops puts a version of the model m into the drop directory and has it looked at.
func (r *trialRig) drops(t *testing.T, seed uint64) {
	t.Helper()
	r.put(t, "m.vqf", tinyModel(t, func(c *testmodel.Config) { c.Seed += seed }))
	r.scan(t.Context())
}

// serves is the digest of what does.
func (r *trialRig) serves(t *testing.T, tentative bool) string {
	t.Helper()
	docs := r.reg.list()
	if len(docs) != 1 || docs[0].State != stateReady || docs[0].Tentative != tentative {
		t.Fatalf("models: %+v, want one that serves, tentative %v", docs, tentative)
	}
	return docs[0].SHA256
}

// after is a start of the daemon after a run that was killed.
func (r *trialRig) after(t *testing.T) *trialRig {
	t.Helper()
	again := &trialRig{newRig(t, r.state), r.state, r.old, r.new}
	again.observing = r.observing
	again.scan(t.Context())
	return again
}

// ends counts requests on the model as control tells of them.
func (r *trialRig) ends(t *testing.T, n int, code string) (look bool) {
	t.Helper()
	ref, err := r.reg.resolve("m")
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		look = r.tally.observe(control.Observation{Op: control.OpChat, Code: code, Model: ref})
	}
	return look
}

// stored is how many versions are in the store.
func (r *trialRig) stored(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir(r.store.dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// wentBack fails unless the version before serves, and everybody was told why.
func (r *trialRig) wentBack(t *testing.T, why string) {
	t.Helper()
	if got := r.serves(t, false); got != r.old {
		t.Errorf("%s serves, want %s", got, r.old)
	}
	expect(t, r.rig, "m ready* health_check_failed")
	failed, _ := readMarker(t, filepath.Join(r.drop, "m.vqf.failed"))
	ready, _ := readMarker(t, filepath.Join(r.drop, "m.vqf.ready"))
	if failed.SHA256 != r.new || failed.Code != control.HealthCheckFailed.Name || !strings.Contains(failed.Message, why) || ready.SHA256 != r.old {
		t.Errorf("markers: failed %+v, ready %+v, want %q", failed, ready, why)
	}
	if n := strings.Count(fmt.Sprint(r.events), "rolled_back m health_check_failed"); n != 1 {
		t.Errorf("events: %v", r.events)
	}
	if _, err := os.Stat(r.quarantinePath(r.new)); err != nil {
		t.Error(err)
	}
	if n := r.stored(t); n != 1 {
		t.Errorf("%d versions are in the store", n)
	}
}

// An update that holds is committed, and only then the version before leaves the store.
func TestDroppedUpdateHolds_P197(t *testing.T) {
	r := newTrialRig(t)
	r.ends(t, 50, "ok")
	r.ends(t, 2, control.Internal.Name)
	r.ends(t, 9, control.ContextOverflow.Name) // the callers' own fault
	if next := r.scan(t.Context()); next != rescan || r.stored(t) != 2 {
		t.Errorf("it is looked at again after %v, %d versions are in the store", next, r.stored(t))
	}
	r.clock = r.clock.Add(5*time.Minute - time.Second)
	if next := r.scan(t.Context()); next != time.Second || r.serves(t, true) != r.new {
		t.Errorf("it is looked at again after %v", next)
	}
	r.clock = r.clock.Add(time.Second)
	r.scan(t.Context())
	if r.serves(t, false) != r.new || r.stored(t) != 1 {
		t.Errorf("%d versions are in the store", r.stored(t))
	}
	if r.ends(t, 20, control.Internal.Name) {
		t.Error("what is committed is looked at")
	}
	r.scan(t.Context())
	if again := r.after(t); again.serves(t, false) != r.new {
		t.Error("a start forgets the update")
	}
}

// One on which requests fail is taken back at once, and tried again when somebody
// removes the marker.
func TestDroppedUpdateFails_P197(t *testing.T) {
	r := newTrialRig(t)
	counted := 0
	r.tookBack = func() { counted++ }
	r.ends(t, 10, "ok")
	if !r.ends(t, 3, control.ModelIOError.Name) {
		t.Error("nobody looks at it")
	}
	r.scan(t.Context())
	r.wentBack(t, "3 of 13 requests failed")
	r.clock = r.clock.Add(time.Hour)
	r.scan(t.Context())
	r.wentBack(t, "3 of 13 requests failed")
	if counted != 1 {
		t.Errorf("it was counted %d times", counted)
	}
	r.after(t).wentBackQuietly(t)
	if err := os.Remove(filepath.Join(r.drop, "m.vqf.failed")); err != nil {
		t.Fatal(err)
	}
	r.scan(t.Context())
	if r.serves(t, true) != r.new {
		t.Error("it is not tried again")
	}
}

// wentBackQuietly is a later start, which tells of nothing anew.
func (r *trialRig) wentBackQuietly(t *testing.T) {
	t.Helper()
	if got := r.serves(t, false); got != r.old || len(r.events) != 0 {
		t.Errorf("%s serves, want %s; events %v", got, r.old, r.events)
	}
	expect(t, r.rig, "m ready* health_check_failed")
}

// A version with which the daemon goes down twice is not loaded a third time.
func TestDroppedUpdateEndsTheDaemon_P197(t *testing.T) {
	r := newTrialRig(t)
	second := r.after(t)
	if second.serves(t, true) != r.new || second.book.Models["m"].Trial.BootsLeft != 1 {
		t.Errorf("the second run: %+v", second.book.Models["m"].Trial)
	}
	third := r.after(t)
	third.wentBack(t, "the daemon went down 2 times")
	third.scan(t.Context())
	third.wentBack(t, "the daemon went down 2 times")
	r.after(t).wentBackQuietly(t)
}

// An orderly end is no fault of the version.
func TestDroppedUpdateIsPardoned(t *testing.T) {
	r := newTrialRig(t)
	for range 5 {
		r.close(t.Context())
		r = r.after(t)
		if r.serves(t, true) != r.new {
			t.Fatal("it was taken back")
		}
	}
}

// What a third version would go back to is what has held, not what is on trial; and
// the version that has held is on no trial when it comes back.
func TestDroppedUpdateOfAnUpdate(t *testing.T) {
	r := newTrialRig(t)
	r.drops(t, 2)
	if got := r.serves(t, true); got == r.new || r.book.Models["m"].Trial.Before.SHA256 != r.old || r.stored(t) != 2 {
		t.Errorf("%s would go back to %s", got, r.book.Models["m"].Trial.Before.SHA256)
	}
	r.drops(t, 0)
	if r.serves(t, false) != r.old || r.stored(t) != 1 {
		t.Errorf("%d versions are in the store", r.stored(t))
	}
}

// Where the start cannot be charged nothing is risked; the trial begins again when there
// is room.
func TestTrialOnAFullDisk(t *testing.T) {
	r := newTrialRig(t)
	path := r.book.path
	r.book.path = filepath.Join(r.state, "full", "installed.json")
	r.chargeTrials()
	if r.book.Models["m"].SHA256 != r.old || r.fallen["m"].failure.Code != control.InsufficientStore {
		t.Errorf("the book has %+v", r.book.Models["m"])
	}
	r.book.path = path
	delete(r.seen, "m")
	r.scan(t.Context())
	if s := r.seen["m"]; s.failure == nil || s.failure.Needed == 0 {
		t.Fatalf("it is not said: %+v", s.failure)
	}
	r.clock = r.clock.Add(rescan)
	r.scan(t.Context())
	if r.serves(t, true) != r.new {
		t.Error("it is not tried again")
	}
}

// Without a time for it there is no trial, and nothing to go back to has none either.
func TestNoTrial(t *testing.T) {
	r := &trialRig{rig: newRig(t, t.TempDir())}
	r.drops(t, 0)
	r.drops(t, 1)
	r.serves(t, false)
	r = &trialRig{rig: newRig(t, t.TempDir())}
	r.observing = time.Minute
	r.drops(t, 0)
	r.serves(t, false)
}

// A model that is taken away says so until its last request is done; a new one of its
// name does not wait for that.
func TestUnloading_P198(t *testing.T) {
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprint(again), func(t *testing.T) {
			r := newTrialRig(t)
			_, release, err := r.reg.acquire(context.Background(), "m")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(r.drop, "m.vqf")); err != nil {
				t.Fatal(err)
			}
			r.scan(t.Context())
			r.scan(t.Context())
			expect(t, r.rig, "m unloading")
			if _, err := r.reg.resolve("m"); CodeOf(err) != control.UnknownModel {
				t.Errorf("a new request: %v", err)
			}
			want := ""
			if again {
				r.drops(t, 3)
				want = "m ready*"
			}
			release()
			r.drained.Wait()
			expect(t, r.rig, want)
		})
	}
}

// A tool that removes a file before it puts another one in its place takes no model out
// of service.
func TestReplacedByRemoving_P199(t *testing.T) {
	r := newTrialRig(t)
	r.grace = goneAfter
	path := filepath.Join(r.drop, "m.vqf")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if next := r.scan(t.Context()); next != goneAfter {
		t.Errorf("it is looked at again after %v", next)
	}
	expect(t, r.rig, "m ready*")
	r.clock = r.clock.Add(goneAfter - time.Millisecond)
	r.drops(t, 4)
	expect(t, r.rig, "m ready*")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	r.scan(t.Context())
	r.clock = r.clock.Add(goneAfter)
	r.scan(t.Context())
	expect(t, r.rig, "")
	if r.drained.Wait(); r.stored(t) != 0 {
		t.Errorf("%d versions are in the store", r.stored(t))
	}
}

// A third version that is on its way when the second one is taken back is not blamed
// for it.
func TestTakenBackBesideAnother(t *testing.T) {
	r := newTrialRig(t)
	third := tinyModel(t, func(c *testmodel.Config) { c.Seed += 5 })
	r.put(t, "m.vqf", third[:len(third)/2])
	r.scan(t.Context())
	r.ends(t, 3, control.ModelIOError.Name)
	r.scan(t.Context())
	if r.serves(t, false) != r.old || exists(filepath.Join(r.drop, "m.vqf.failed")) {
		t.Error("the version that comes is blamed")
	}
	r.put(t, "m.vqf", third)
	r.scan(t.Context())
	if got := r.serves(t, true); got == r.old || got == r.new || r.book.Models["m"].Trial.Before.SHA256 != r.old {
		t.Errorf("%s serves", got)
	}
}

// In a whole box: the weights of an update are lost under its mapping, three people are
// told so, and the fourth gets an answer of the version before.
func TestDaemonTakesBack_P197(t *testing.T) {
	b := startBox(t, nil)
	b.drop(t, "m.vqf", tinyModel(t, nil))
	b.ready(t, "m")
	b.connected(t)
	old := modelDigest(t, b, "m")
	b.drop(t, "m.vqf", tinyModel(t, func(c *testmodel.Config) { c.Seed = 9 }))
	until(t, "the update serves", func() bool { return modelDigest(t, b, "m") != old })
	stored := filepath.Join(b.cfg.Paths.store(), "sha256-"+modelDigest(t, b, "m"), storedName)
	for range 2 { // the file that was dropped, and the copy that the model moves to
		if err := os.Chmod(stored, 0o640); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(stored, 4096); err != nil {
			t.Fatal(err)
		}
	}
	c := b.client(t, "you")
	ctx, cancel := context.WithTimeout(context.Background(), waitFor)
	defer cancel()
	for i := range 3 {
		if _, err := c.Send(ctx, request(fmt.Sprintf("%d never asked", i), 8), nil); !errors.Is(err, control.ModelIOError) {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	until(t, "the version before serves", func() bool { return modelDigest(t, b, "m") == old })
	if a, err := c.Send(ctx, request("hello", 8), nil); err != nil || a.Done.Model.SHA256 != old {
		t.Errorf("%v: %+v", err, a)
	}
	until(t, "it is counted", func() bool {
		_, body := b.ask(t, false, "GET", "/metrics", nil)
		return strings.Contains(string(body), "\nwindhover_rollbacks_total 1\n")
	})
}
