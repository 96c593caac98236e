// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"windhover/appliance/rollout"
	"windhover/control"
	"windhover/control/ota"
)

// A file that takes the place of a model that served is on trial: the version before
// stays in the store until the new one has held for drop.observe_s, and serves again if
// requests fail on the new one or the daemon goes down with it. It is what updates over
// the air do (package rollout), whose measures these are; their state machine is not
// used, because it knows a version by digest and release, and a dropped one may be a
// directory, or have no digest that anybody has read. Speed is no measure here: who
// drops a larger model over a smaller one knows that it is slower.

// onTrial is what is remembered of a version on trial.
type onTrial struct {
	Before    installed `json:"before"`     // has held, and serves again if this one does not
	BootsLeft int       `json:"boots_left"` // starts of the daemon that the trial may still cost
}

// trialBoots is how many that are: a start takes one away before the version is
// touched, and the one that finds none left does not load it. An orderly end gives them
// back.
const trialBoots = 2

// dropHealth is what a dropped version has to hold.
var dropHealth = ota.Health{MaxErrorRatio: 0.05}

// trialOf is the trial of a version that is about to take the place of what the book
// has under its name, nil for none: there is nothing to go back to, or it is that very
// version.
func (d *deployer) trialOf(in, before installed, known bool) *onTrial {
	if known && before.Key == in.Key {
		return before.Trial // it goes on, after a start
	}
	if before.Trial != nil {
		before = before.Trial.Before // what has not held is nothing to go back to
	}
	if d.observing <= 0 || !known || before.Held || before.Key == in.Key {
		return nil
	}
	return &onTrial{Before: before, BootsLeft: trialBoots}
}

// observe ends the trials whose time is over, and takes back what does not hold. It
// returns when to look again, at most rescan.
func (d *deployer) observe(ctx context.Context) time.Duration {
	next := rescan
	for _, name := range slices.Sorted(maps.Keys(d.book.Models)) {
		in := d.book.Models[name]
		if in.Trial == nil || in.Held || ctx.Err() != nil || d.reg.refOf(name).Version != in.Version {
			continue
		}
		began, known := d.trials[name]
		if !known { // served by a start
			began = d.now()
			d.trials[name] = began
		}
		left := d.observing - d.now().Sub(began)
		err := rollout.Healthy(dropHealth, 0, d.tally.sample(name))
		switch {
		case err != nil:
			d.takeBack(ctx, name, in, err)
		case left <= 0:
			d.commit(name, in)
		default:
			next = min(next, left)
		}
	}
	return next
}

// commit ends a trial well; what the version before has in the store may go.
func (d *deployer) commit(name string, in installed) {
	d.log.Info("model version holds", "model", name, "version", in.Version, "before", in.Trial.Before.Version)
	in.Trial = nil
	d.book.Models[name] = in
	delete(d.trials, name)
	d.tally.settle(name)
	d.reg.update(name, func(m *control.Model) { m.Tentative = false })
	d.save()
}

// takeBack lets the version before serve again, while requests go on.
func (d *deployer) takeBack(ctx context.Context, name string, in installed, cause error) {
	before := in.Trial.Before
	delete(d.trials, name)
	v, err := d.openBeside(ctx, name, before)
	if err == nil {
		err = d.activate(ctx, v, nil)
	}
	if ctx.Err() != nil {
		return // the next start begins the trial again
	}
	if err != nil {
		d.log.Error("the version before cannot be used: the new one goes on", "model", name, "version", in.Version, "before", before.Version, "cause", cause, "error", err)
		d.commit(name, in)
		return
	}
	d.book.Models[name] = before
	d.save()
	d.condemn(name, in, coded(cause, control.HealthCheckFailed))
}

// condemn tells of a dropped version that did not hold. Its file is not tried again
// until somebody removes the marker; one that has taken its place meanwhile is judged by
// itself.
func (d *deployer) condemn(name string, in installed, failure *control.Error) {
	if s := d.seen[name]; s != nil && in.of(s.candidate) {
		s.ready, s.failure, s.tried = false, failure, d.now()
		s.digest, s.version = in.SHA256, in.Version
		d.remember(s)
		d.mark(s.Entry, func() error { return d.markBefore(s) })
		d.isolate(s)
	}
	before := d.book.Models[name]
	d.log.Error("model version taken back", "event", "rolled_back", "model", name, "version", in.Version, "serves", before.Version, "code", failure.Code.Name, "error", failure.Message)
	d.event(control.Occurrence{Event: "rolled_back", Model: name, Code: failure.Code.Name, Message: fmt.Sprintf("version %s: %s; version %s serves again", in.Version, failure.Message, before.Version)})
	d.tookBack()
}

// of says whether a version came from these very files.
func (in installed) of(c candidate) bool {
	file, side := c.contents()
	return file == in.Source && slices.Equal(side, in.Side)
}

// markBefore says beside a candidate that the version before serves, and why it does
// not itself.
func (d *deployer) markBefore(s *sighting) error {
	before := d.book.Models[s.Name]
	err := markReady(d.drop, s.candidate, before, d.who.standing(before), d.now())
	if err == nil {
		err = markFailed(d.drop, s, true, d.now())
	}
	s.marked = err == nil
	return err
}

// fallen is a version that was on trial when the daemon went down once too often. Its
// file is told of it when it is seen.
type fallen struct {
	in      installed
	failure *control.Error
}

// chargeTrials lets each version on trial pay for this start. That is on the disk before
// any is touched: a version that ends the daemon would have no end of starts otherwise.
func (d *deployer) chargeTrials() {
	charged := false
	for name, in := range d.book.Models {
		if in.Trial == nil {
			continue
		}
		charged = true
		t := *in.Trial
		t.BootsLeft--
		if in.Trial = &t; t.BootsLeft <= 0 {
			d.fell(name, in, control.Errorf(control.HealthCheckFailed, "the daemon went down %d times while version %s was on trial", trialBoots, in.Version))
			continue
		}
		d.book.Models[name] = in
	}
	if !charged {
		return
	}
	if err := d.book.save(); err != nil {
		for name, in := range d.book.Models {
			if in.Trial != nil {
				e := control.Errorf(control.InsufficientStore, "version %s cannot be on trial while the state cannot be stored: %v", in.Version, err)
				e.Needed = trialRoom
				d.fell(name, in, e)
			}
		}
		d.book.unsaved = d.now()
	}
}

// trialRoom is about what the state takes.
const trialRoom = 1 << 20

func (d *deployer) fell(name string, in installed, failure *control.Error) {
	d.fallen[name] = fallen{in, failure}
	d.book.Models[name] = in.Trial.Before
}

// recognise tells of a fallen version, when what has its name is seen.
func (d *deployer) recognise(name string) {
	if f, ok := d.fallen[name]; ok {
		delete(d.fallen, name)
		d.condemn(name, f.in, f.failure)
	}
}

// pardonTrials gives versions on trial back what starts took: an orderly end is none of
// their fault.
func (d *deployer) pardonTrials() {
	changed := false
	for name, in := range d.book.Models {
		if in.Trial != nil && in.Trial.BootsLeft != trialBoots {
			t := *in.Trial
			t.BootsLeft = trialBoots
			in.Trial, changed = &t, true
			d.book.Models[name] = in
		}
	}
	if changed {
		if err := d.book.save(); err != nil {
			d.log.Warn("what is on trial is not pardoned for this end", "error", err)
		}
	}
}
