// SPDX-License-Identifier: Apache-2.0

package update

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"windhover/appliance/rollout"
	"windhover/control"
	"windhover/control/ota"
)

// Pauses before a version that failed for a reason that passes is tried again.
const (
	firstPause   = time.Minute
	longestPause = 6 * time.Hour
)

// thinkAgain is how often documents are looked at although nothing happened: a clock
// may have been set, a key may have come, a name may have become free.
const thinkAgain = time.Minute

// document is the last one of a target.
type document struct {
	data     []byte
	accepted *ota.Accepted  // the last one that counted, nil: none did
	failure  *control.Error // why data does not; nil: it does
	judged   bool           // data was accepted
	rev      int64          // of data, as it says
}

// wish is a model of the document that counts.
type wish struct {
	model ota.Model
	rev   int64
	asked bool // the machine knows
	tries int
	due   time.Time // when to ask once more; zero: not before another document
	last  rollout.Report
}

// Desired takes a document as it came for a target, "device/NAME" or "group/NAME"; an
// empty one takes the one before back, but nothing that it led to. It is quick.
func (u *Updater) Desired(target string, data []byte) {
	u.mu.Lock()
	u.inbox[target] = bytes.Clone(data)
	u.mu.Unlock()
	u.ponder()
}

func pause(tries int) time.Duration {
	d := longestPause
	if tries < 10 {
		d = min(firstPause<<tries, longestPause)
	}
	return d/2 + rand.N(d/2)
}

// think judges documents and asks the machine for what they want, until ctx ends.
func (u *Updater) think(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-u.wake:
		case <-timer.C:
		}
		u.receive()
		next := u.ask(ctx)
		u.mu.Lock()
		look := u.look
		u.look = false
		u.mu.Unlock()
		if look {
			u.send(ctx, rollout.Look{})
		}
		u.tell()
		timer.Reset(next)
	}
}

// receive judges what came, and once more what did not count.
func (u *Updater) receive() {
	u.mu.Lock()
	came := u.inbox
	u.inbox = map[string][]byte{}
	u.mu.Unlock()
	for target, data := range came {
		switch old := u.docs[target]; {
		case len(data) == 0:
			delete(u.docs, target)
		case old == nil:
			u.docs[target] = &document{data: data}
		case !bytes.Equal(old.data, data):
			old.data, old.judged = data, false // until it is, the one before counts
		}
	}
	for _, target := range slices.Sorted(maps.Keys(u.docs)) {
		if d := u.docs[target]; !d.judged {
			u.judge(target, d)
		}
	}
	u.choose()
}

// judge says whether a document counts.
func (u *Updater) judge(target string, d *document) {
	now := rollout.Merge(u.machine.State().Memory, u.memory)
	a, next, err := u.cfg.Judge().Accept(d.data, now, u.cfg.Clock())
	if err == nil && a.Desired.Target.String() != target {
		err = control.Errorf(control.WrongTarget, "the document for %s came as one for %s", a.Desired.Target, target)
	}
	if err != nil {
		d.failure, d.rev = asError(err), revOf(d.data)
		return
	}
	d.accepted, d.failure, d.judged, d.rev = a, nil, true, a.Desired.Rev
	u.memory, u.news = next, u.news || !a.Known
}

// revOf is the revision that a document gives itself, 0 if it is none.
func revOf(data []byte) int64 {
	e, err := ota.ParseEnvelope(data, ota.MaxDocument)
	if err != nil {
		return 0
	}
	d, err := ota.ParseDesired(e.Payload)
	if err != nil {
		return 0
	}
	return d.Rev
}

// choose finds the document that counts. Another one has wishes of its own.
func (u *Updater) choose() {
	var best *ota.Accepted
	for _, target := range slices.Sorted(maps.Keys(u.docs)) {
		a := u.docs[target].accepted
		if a != nil && (best == nil || ota.Prefer(best.Desired, a.Desired) == a.Desired) {
			best = a
		}
	}
	if best == u.wanted {
		return
	}
	u.wanted, u.chose = best, false
	u.mu.Lock()
	defer u.mu.Unlock()
	u.wishes = map[string]*wish{}
	if best == nil || best.Held {
		return
	}
	for _, m := range best.Desired.Models {
		u.wishes[m.Name] = &wish{model: m, rev: best.Desired.Rev}
	}
}

// ask tells the machine of wishes that it does not know, and returns when to look
// again.
func (u *Updater) ask(ctx context.Context) time.Duration {
	next := thinkAgain
	if u.news && u.send(ctx, rollout.Seen{Memory: u.memory}) {
		u.news = false // remembered, or about to be, whatever becomes of the wishes
	}
	if u.wanted == nil {
		return next
	}
	d := u.wanted.Desired
	for _, name := range slices.Sorted(maps.Keys(u.wishes)) {
		u.mu.Lock()
		w := u.wishes[name]
		wait := time.Until(w.due)
		idle := w.asked && (w.due.IsZero() || wait > 0)
		u.mu.Unlock()
		if idle {
			if wait > 0 {
				next = min(next, wait)
			}
			continue
		}
		u.want(ctx, w, d)
	}
	u.prefer(d)
	return next
}

// want asks for one wish.
func (u *Updater) want(ctx context.Context, w *wish, d *ota.Desired) {
	m := w.model
	version := rollout.Version{Version: m.Version, Release: m.Release, SHA256: m.SHA256}
	u.mu.Lock()
	w.asked, w.due = true, time.Time{}
	u.asking[m.SHA256]++
	u.mu.Unlock()
	defer u.asked(m.SHA256)
	err := u.cfg.Device.Claim(m.Name)
	if err == nil {
		err = u.prepare(&plan{Model: m, Rollout: d.Rollout, Health: d.Health})
	}
	if err != nil {
		box{u}.Report(rollout.Report{Model: m.Name, Version: version, Rev: d.Rev, Status: rollout.Failure, Err: asError(err)})
		return
	}
	memory := u.memory // stored before anything is done
	u.send(ctx, rollout.Want{Model: m.Name, Memory: &memory, Update: rollout.Update{Version: version, Rev: d.Rev, Keep: d.Keep}})
	u.send(ctx, rollout.Look{}) // it may wait for this plan
}

// asked lets a plan go when nothing wants it.
func (u *Updater) asked(sum ota.Digest) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.asking[sum]--; u.asking[sum] == 0 {
		delete(u.asking, sum)
	}
}

// prefer makes the model that a document names the default, once, as soon as it serves.
func (u *Updater) prefer(d *ota.Desired) {
	if d.Active == "" || u.chose || u.wanted.Held {
		return
	}
	u.mu.Lock()
	w := u.wishes[d.Active]
	settled := w == nil || w.last.Status == rollout.Succeeded
	u.mu.Unlock()
	if settled && u.cfg.Device.Default(d.Active) == nil {
		u.chose = true
	}
}

// heard notes what became of a wish. mu is held.
func (w *wish) heard(r rollout.Report, retry func(int) time.Duration) {
	w.last = r
	if r.Status != rollout.Failure && r.Status != rollout.Rejected || !passes(r.Err) {
		return
	}
	w.due = time.Now().Add(retry(w.tries))
	w.tries++
}

// passes says whether a failure may be over after a while.
func passes(e *control.Error) bool {
	switch e.Code {
	case control.Internal, control.Interrupted, control.InsufficientStore, control.ModelIOError:
		return true
	}
	return e.Code.Retry
}

// asError gives an error without a code that of this machine's fault.
func asError(err error) *control.Error {
	var e *control.Error
	if errors.As(err, &e) {
		return e
	}
	return control.Errorf(control.Internal, "%v", err)
}
