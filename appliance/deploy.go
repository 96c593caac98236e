// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"windhover/control"
)

const (
	// stallAfter is how long a file may stop growing before people are told.
	stallAfter = 10 * time.Minute
	// drainLimit is how long a replaced model waits for its last request.
	drainLimit = 2 * time.Minute
)

// deployer turns the content of the drop directory into serving models. One
// goroutine runs it; each file is judged by itself, so that a bad or unfinished
// one delays no other.
type deployer struct {
	drop    string
	store   store
	check   string // vqf.check
	reg     *registry
	book    *book
	load    func(ctx context.Context, weights string) (servable, error)
	probe   func(ctx context.Context, s servable) (control.TokenSpeed, error)
	event   func(control.Occurrence)
	log     *slog.Logger
	now     func() time.Time
	drained sync.WaitGroup // versions on their way out

	seen map[string]*sighting // by model name
}

// sighting is what the last scans saw of one candidate.
type sighting struct {
	candidate
	settled bool      // judged: nothing to do until it changes
	ready   bool      // judged good
	grown   time.Time // last change of an unfinished file
	stalled bool
}

// scan looks at the drop directory once and acts on every difference. It
// reports whether some file is still arriving.
func (d *deployer) scan(ctx context.Context) (arriving bool) {
	found, refused, err := look(d.drop)
	if err != nil {
		d.log.Error("drop directory", "error", err)
		return false
	}
	d.refuseNames(refused)
	here := map[string]bool{}
	for _, c := range found {
		here[c.Name] = true
	}
	d.forget(here)
	for _, c := range found {
		if ctx.Err() != nil {
			return false
		}
		if d.consider(ctx, c) {
			arriving = true
		}
	}
	return arriving
}

// refuseNames marks files whose names cannot be model names, once each.
func (d *deployer) refuseNames(refused map[string]string) {
	for entry, reason := range refused {
		c := candidate{Entry: entry, Name: entry}
		if fi, err := os.Lstat(d.drop + "/" + entry); err == nil {
			c.ID = identify(fi)
		}
		if _, told := heldByFailure(d.drop, c); told {
			continue
		}
		d.log.Error("model refused", "entry", entry, "reason", reason)
		if err := markFailed(d.drop, c, control.BadRequest.Name, reason, false, d.now()); err != nil {
			d.log.Error("marker", "entry", entry, "error", err)
		}
	}
}

// forget undeploys every model whose file is gone.
func (d *deployer) forget(here map[string]bool) {
	changed := false
	for name, s := range d.seen {
		if !here[name] {
			d.log.Info("model removed", "model", name)
			delete(d.seen, name)
			d.retire(name, d.reg.withdraw(name))
			if err := clearMarkers(d.drop, s.candidate); err != nil {
				d.log.Error("marker", "model", name, "error", err)
			}
			changed = true
		}
	}
	for name := range d.book.Models {
		if !here[name] {
			delete(d.book.Models, name)
			changed = true
		}
	}
	if changed {
		d.save()
		d.collect()
	}
}

// consider decides what to do about one candidate and does it. It reports
// whether the file is still arriving.
func (d *deployer) consider(ctx context.Context, c candidate) (arriving bool) {
	s, known := d.seen[c.Name]
	if c.Skip {
		if known && s.settled {
			d.log.Info("model held back", "model", c.Name)
			d.retire(c.Name, d.reg.withdraw(c.Name))
			delete(d.seen, c.Name)
		}
		return false
	}
	if known && s.settled && s.same(c) {
		if s.ready {
			return false
		}
		// A .failed marker that somebody removed asks for another try.
		if _, held := heldByFailure(d.drop, c); held {
			return false
		}
	}
	if doc, held := heldByFailure(d.drop, c); held && (!known || !s.settled) {
		d.settleFailed(c, doc)
		return false
	}
	var before *fileID
	if known {
		before = &s.ID
	}
	at := completeness{Complete: true}
	for i, path := range append([]string{c.Weights}, c.Side...) {
		if i > 0 { // no declared length: only the lease can tell
			if f, err := os.Open(path); err == nil {
				if busy, err := hasWriter(f); err == nil && busy {
					at.Complete = false
				}
				_ = f.Close() // read only
			}
			continue
		}
		at = checkComplete(path, before)
	}
	switch {
	case at.Err != nil && errors.Is(at.Err, os.ErrNotExist):
		return true // removed between listing and look: the next scan knows
	case at.Err != nil:
		d.fail(c, coded(at.Err, control.FormatInvalid))
		return false
	case !at.Complete:
		d.wait(c, at)
		return true
	}
	d.deploy(ctx, c)
	return false
}

// settleFailed remembers a failure of an earlier run of the daemon.
func (d *deployer) settleFailed(c candidate, doc markerDoc) {
	d.seen[c.Name] = &sighting{candidate: c, settled: true}
	d.reg.update(c.Name, func(m *control.Model) {
		if m.State == "" || m.State == stateFailed {
			m.State = stateFailed
			m.Error = control.Errorf(control.Code{Name: doc.Code}, "%s", doc.Message)
		}
	})
}

// wait records a file that has not arrived whole.
func (d *deployer) wait(c candidate, at completeness) {
	s, known := d.seen[c.Name]
	now := d.now()
	if !known || s.settled || !s.same(c) {
		s = &sighting{candidate: c, grown: now}
		d.seen[c.Name] = s
	}
	state := stateWaiting
	if now.Sub(s.grown) >= stallAfter {
		state = stateStalled
		if !s.stalled {
			s.stalled = true
			msg := fmt.Sprintf("%d of %d bytes are there and nothing has come for %s: copy it again", at.Have, at.Want, stallAfter)
			d.log.Warn("file stalled", "model", c.Name, "have", at.Have, "want", at.Want)
			d.event(control.Occurrence{Event: "stalled", Model: c.Name, Message: msg})
		}
	}
	d.reg.update(c.Name, func(m *control.Model) {
		if m.State != stateReady {
			m.State, m.Bytes = state, at.Want
		}
	})
}

// deploy takes a complete candidate all the way: verify, load, probe, activate.
func (d *deployer) deploy(ctx context.Context, c candidate) {
	start := d.now()
	d.seen[c.Name] = &sighting{candidate: c}
	state := func(s string) {
		d.reg.update(c.Name, func(m *control.Model) {
			if m.State != stateReady {
				m.State, m.Error = s, nil
			}
		})
	}
	in, known := d.book.knows(c, d.store)
	if !known || d.check == "always" {
		state(stateVerifying)
		var err error
		if in, err = install(ctx, d.store, c, d.check, nil); err != nil {
			d.failed(ctx, c, err, control.FormatInvalid)
			return
		}
	}
	state(stateLoading)
	weights := d.store.weights(in.Key)
	model, err := d.loadBeside(ctx, c.Name, weights)
	if err != nil {
		d.failed(ctx, c, err, control.LoadFailed)
		return
	}
	state(stateProbing)
	speed, err := d.probe(ctx, model)
	if err != nil {
		err = errors.Join(err, model.Close())
		d.failed(ctx, c, err, control.HealthCheckFailed)
		return
	}
	s := newServing(c.Name, model, in)
	old := d.reg.activate(c.Name, s, document(c.Name, s, speed))
	d.book.Models[c.Name] = in
	d.save()
	if err := markReady(d.drop, c, in.Version, in.SHA256, d.now()); err != nil {
		d.log.Error("marker", "model", c.Name, "error", err)
	}
	d.seen[c.Name].settled, d.seen[c.Name].ready = true, true
	d.logLoaded(c.Name, s, d.now().Sub(start))
	d.event(control.Occurrence{Event: "model_ready", Model: c.Name, Message: "version " + in.Version})
	d.retire(c.Name, old)
}

// failed is fail for an error that may only mean that the daemon stops.
func (d *deployer) failed(ctx context.Context, c candidate, err error, otherwise control.Code) {
	if ctx.Err() != nil {
		return // the next start takes it up again
	}
	d.fail(c, coded(err, otherwise))
	d.collect()
}

// fail refuses a candidate. An older version that serves goes on serving.
func (d *deployer) fail(c candidate, err *control.Error) {
	d.seen[c.Name] = &sighting{candidate: c, settled: true}
	serving := false
	d.reg.update(c.Name, func(m *control.Model) {
		serving = m.State == stateReady
		if !serving {
			m.State = stateFailed
		}
		m.Error = err
	})
	d.log.Error("model refused", "model", c.Name, "code", err.Code.Name, "reason", err.Message, "still_serving", serving)
	if merr := markFailed(d.drop, c, err.Code.Name, err.Message, serving, d.now()); merr != nil {
		d.log.Error("marker", "model", c.Name, "error", merr)
	}
	d.event(control.Occurrence{Event: "model_failed", Model: c.Name, Code: err.Code.Name, Message: err.Message})
}

// retire closes a replaced version when its last request is done.
func (d *deployer) retire(name string, s *serving) {
	if s == nil {
		return
	}
	d.drained.Add(1)
	go func() {
		defer d.drained.Done()
		select {
		case <-s.idle:
		case <-time.After(drainLimit):
			// Close waits for the request in work and turns later ones away.
			d.log.Warn("requests on the replaced version outlast the drain limit", "model", name, "version", s.Version)
		}
		if err := s.Close(); err != nil {
			d.log.Error("close model", "model", name, "error", err)
		}
		d.log.Info("model version unloaded", "model", name, "version", s.Version)
	}()
}

// recall restores the default order of the last run, so that the models take
// their old places whatever order they are loaded in, and clears what a run that
// was cut off left in the store.
func (d *deployer) recall() {
	d.reg.prefer(d.book.Order)
	d.collect()
}

// close waits for versions on their way out and closes those that serve. Nothing
// may ask for them any more.
func (d *deployer) close() {
	for _, s := range d.reg.all() {
		d.retire(s.Name, s)
	}
	d.drained.Wait()
}

func (d *deployer) save() {
	d.book.Order = d.reg.defaults()
	if err := d.book.save(); err != nil {
		d.log.Error("state of installed models is not saved: the next start verifies them again", "error", err)
	}
}

// collect removes from the store what no installed model uses. Pages of a version
// that still drains stay mapped though its name is gone.
func (d *deployer) collect() {
	keep := map[string]bool{}
	for _, in := range d.book.Models {
		keep[in.Key] = true
	}
	if err := d.store.collect(keep); err != nil {
		d.log.Error("store", "error", err)
	}
}
