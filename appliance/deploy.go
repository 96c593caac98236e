// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"windhover/control"
	"windhover/vqf"
)

// drainLimit is how long a replaced model waits for its last request.
const drainLimit = 2 * time.Minute

// deployer turns the content of the drop directory into serving models. One
// goroutine runs it, and that of updates, one at a time.
type deployer struct {
	work    sync.Mutex             // held by a look at the drop directory, and by a step of an update
	managed func(name string) bool // updates have a model of that name
	kept    map[string]bool        // keys in the store that updates need
	keepAll bool                   // nobody knows what they need: nothing is removed

	drop    string
	store   store
	check   string                 // vqf.check
	next    atomic.Pointer[Config] // that counts from the next look on; nil: nothing new
	layouts func(VQF)              // takes that for what is loaded from then on; nil: nobody does
	who     *authority
	reg     *registry
	book    *book
	leases  *leases
	load    func(ctx context.Context, weights string, in installed) (servable, error)
	probe   func(ctx context.Context, s servable) (control.TokenSpeed, error)
	memory  func() int64 // bytes that one more model may take
	event   func(control.Occurrence)
	wake    func() // asks for a scan
	pulse   *pulse // proves that the scans move
	log     *slog.Logger
	now     func() time.Time
	drained sync.WaitGroup // versions on their way out

	seen     map[string]*sighting // by model name
	refused  map[string]*refusal  // by entry
	unmarked map[string]time.Time // entries whose marker could not be written, and when that was tried
	revived  map[string]bool      // models whose last good version was tried in this run
	saves    bool                 // prefixes, at the end: engine.prefix_cache
	blind    bool                 // the drop directory could not be read
	notes    notes

	quarantine string               // records of bad files
	space      func() (int64, bool) // free bytes of the store's disk
	low        bool                 // people were told that there is little

	grace   time.Duration        // goneAfter; tests that have none need no second look
	missing map[string]time.Time // since when the file of a model is gone

	observing time.Duration        // how long an update is on trial; 0: it is not
	tally     *tallies             // how requests end on what serves
	trials    map[string]time.Time // since when a version is on trial, by model
	fallen    map[string]fallen    // versions that the daemon went down with, until their files are seen
	tookBack  func()               // counts versions that were taken back
	loaded    func(name string, took time.Duration)
}

// newDeployer makes a deployer without the parts that tests replace: check, reg,
// load, probe, memory, event, wake, log.
func newDeployer(p Paths, b *book) *deployer {
	return &deployer{
		drop: p.drop(), store: store{p.store()}, quarantine: p.quarantine(), space: func() (int64, bool) { return freeSpace(p.store()) }, book: b, managed: func(string) bool { return false }, leases: newLeases(), now: time.Now, pulse: new(pulse),
		seen: map[string]*sighting{}, refused: map[string]*refusal{}, unmarked: map[string]time.Time{}, revived: map[string]bool{},
		tally: newTallies(), trials: map[string]time.Time{}, fallen: map[string]fallen{}, tookBack: func() {}, loaded: func(string, time.Duration) {},
	}
}

// deploy takes a complete candidate all the way: verify, load, probe, activate. It
// returns when to look again, 0 for no need to.
func (d *deployer) deploy(ctx context.Context, s *sighting) time.Duration {
	start := d.now()
	c := s.candidate
	in, known := d.book.knows(c, d.store)
	if known && !d.news(in, c) {
		// What was found out then is judged by the keys and the policy of now.
		if err := d.who.admit(in); err != nil {
			return d.failed(ctx, s, err, control.KeyUnknown)
		}
	} else {
		known = false
	}
	if !known || d.check == "always" {
		d.state(c.Name, stateVerifying)
		var err error
		in, err = d.install(ctx, c)
		if s.digest, s.version = in.SHA256, in.Version; err != nil {
			return d.failed(ctx, s, err, control.FormatInvalid)
		}
	}
	in.Entry, in.Held = c.Entry, false
	before, replaces := d.book.Models[c.Name]
	in.Trial = d.trialOf(in, before, replaces)
	if !known {
		err := d.isolated(s)
		if err == nil {
			err = d.beginTrial(s)
		}
		if err != nil {
			return d.failed(ctx, s, err, control.LoadFailed)
		}
		defer d.endTrial()
	}
	if known && d.check != "always" && d.reg.runs(c.Name, in) {
		// It was taken from the store before this file could be told to be whole, as after
		// a start where it belongs to somebody else.
		d.book.Models[c.Name] = in
		d.save()
		d.reg.update(c.Name, func(m *control.Model) { m.State, m.Error = stateReady, nil })
		s.ready, s.failure = true, nil
		d.markReady(s)
		return 0
	}
	d.state(c.Name, stateLoading)
	v, err := d.openBeside(ctx, c.Name, in)
	if err != nil {
		return d.failed(ctx, s, err, control.LoadFailed)
	}
	d.state(c.Name, stateProbing)
	if err := d.activate(ctx, v, nil); err != nil {
		return d.failed(ctx, s, err, control.HealthCheckFailed)
	}
	d.book.Models[c.Name] = in
	if d.save(); in.Trial != nil {
		d.trials[c.Name] = d.now()
	}
	s.ready, s.failure = true, nil
	if !known {
		d.acquit(in.SHA256)
	}
	d.markReady(s)
	d.logLoaded(v, d.now().Sub(start))
	d.event(control.Occurrence{Event: "model_ready", Model: c.Name, Message: "version " + in.Version + d.signedBy(in)})
	return 0
}

// signedBy is the end of a sentence about a model: who stands for it.
func (d *deployer) signedBy(in installed) string {
	if v := d.who.standing(in); v != nil {
		return ", signed by " + v.String()
	}
	return ""
}

// activate probes a version and lets it serve; failure is what the document of the
// model says beside that, nil for nothing. The version is closed on an error.
func (d *deployer) activate(ctx context.Context, v *serving, failure *control.Error) error {
	d.pulse.look("trying "+v.Name, readLimit)
	speed, err := d.probe(ctx, v.servable)
	// Only from here on is there something to save when a writer comes.
	if !v.guard.onBreak(func() { d.unshare(v) }) || !v.guard.intact() {
		err = errChanged
	}
	if err != nil {
		return errors.Join(err, v.Close())
	}
	doc := document(v, speed)
	doc.Error, doc.Trust = failure, kindOf(d.who.standing(v.installed))
	d.tally.begin(v, v.installed.Trial != nil)
	d.retire(d.reg.activate(v.Name, v, doc))
	return nil
}

// markReady says beside a candidate that it serves.
func (d *deployer) markReady(s *sighting) {
	in := d.book.Models[s.Name]
	s.marked = d.mark(s.Entry, func() error { return markReady(d.drop, s.candidate, in, d.who.standing(in), d.now()) })
}

// state shows how far a model is, unless an older version of it serves.
func (d *deployer) state(name, state string) {
	d.reg.update(name, func(m *control.Model) {
		if m.State != stateReady {
			m.State, m.Have, m.Error = state, 0, nil
		}
	})
}

// failed is fail for an error that may only mean that the file changes under our
// hands, or that the daemon stops.
func (d *deployer) failed(ctx context.Context, s *sighting, err error, otherwise control.Code) time.Duration {
	switch {
	case ctx.Err() != nil:
		return rescan // the next start takes it up again
	case errors.Is(err, errChanged):
		s.since = d.now()
		d.wait(s, arrival{})
		return recheck
	case errors.Is(err, errUnreadable):
		err = unreadable(s.Entry, err)
	}
	d.fail(ctx, s, coded(err, otherwise))
	d.collect()
	return 0
}

// fail refuses a candidate. An older version that serves goes on serving.
func (d *deployer) fail(ctx context.Context, s *sighting, e *control.Error) {
	e.Message = d.store.inDrop(e.Message, s.candidate)
	s.failure, s.ready, s.tried, s.regime = e, false, d.now(), d.who.regimeOf(e.Code)
	d.revive(ctx, s.Name)
	serving := d.reg.serves(s.Name)
	before := d.remember(s)
	delete(d.unmarked, s.Entry) // another reason, another marker
	d.markFailed(s)
	d.isolate(s)
	if before != nil && before.Code == e.Code && before.Message == e.Message {
		return // said before
	}
	d.log.Error("model refused", "event", "model_failed", "model", s.Name, "code", e.Code.Name, "error", e.Message, "still_serving", serving)
	d.event(control.Occurrence{Event: "model_failed", Model: s.Name, Code: e.Code.Name, Message: e.Message})
}

// remember puts a failure into the document of the model and returns the one that
// was there. What a model waited for is no failure.
func (d *deployer) remember(s *sighting) (before *control.Error) {
	d.reg.update(s.Name, func(m *control.Model) {
		if m.State == stateReady || m.State == stateFailed {
			before = m.Error
		}
		if m.State != stateReady {
			m.State, m.Have = stateFailed, 0
		}
		m.Error = s.failure
	})
	return before
}

// wait records a file that has not arrived whole.
func (d *deployer) wait(s *sighting, at arrival) {
	long := d.now().Sub(s.since) >= stallAfter
	if at.Have < headLen && !long && !d.reg.known(s.Name) {
		return // nothing yet that would look like a model
	}
	state := stateWaiting
	if long {
		state = stateStalled
		if !s.stalled {
			s.stalled = true
			msg := fmt.Sprintf("%d of %d bytes are there and nothing has come for %s: copy it again", at.Have, at.Want, stallAfter)
			switch at.Want {
			case 0:
				msg = fmt.Sprintf("%d bytes are there, less than a header, and nothing has come for %s: copy it again", at.Have, stallAfter)
			case at.Have:
				msg = fmt.Sprintf("all %d bytes are there, but a process has held the file open for writing for %s", at.Have, stallAfter)
			}
			d.log.Warn("file stalled", "event", "stalled", "model", s.Name, "have", at.Have, "want", at.Want)
			d.event(control.Occurrence{Event: "stalled", Model: s.Name, Message: msg})
		}
	} else {
		s.stalled = false
	}
	d.reg.update(s.Name, func(m *control.Model) {
		if m.State != stateReady {
			m.State, m.Have, m.Bytes, m.Error = state, at.Have, at.Want, nil
		}
	})
}

// await records a model whose weights are there and whose tokenizer or signature is
// not.
func (d *deployer) await(s *sighting, lacking error) {
	d.reg.update(s.Name, func(m *control.Model) {
		if m.State != stateReady {
			m.State, m.Have, m.Bytes, m.Error = stateWaiting, s.ID.Size, s.ID.Size, coded(lacking, TokenizerMissing)
		}
	})
}

// retire closes a version when its last request is done.
func (d *deployer) retire(s *serving) {
	if s == nil {
		return
	}
	d.drained.Go(func() {
		select {
		case <-s.idle:
		case <-time.After(drainLimit):
			// Close waits for the request in work and turns later ones away.
			d.log.Warn("requests on the replaced version outlast the drain limit", "model", s.Name, "version", s.Version)
		}
		if err := s.Close(); err != nil {
			d.log.Error("a model is not closed", "model", s.Name, "error", err)
		}
		d.reg.drained(s)
		d.log.Info("model version unloaded", "model", s.Name, "version", s.Version)
	})
}

// recall restores the default order of the last run, so that the models take
// their old places whatever order they are loaded in, and clears what a run that
// was cut off left behind. What served is known from now on, as what is on its way: who
// asks for it is not told that there is no such model.
func (d *deployer) recall() {
	d.chargeTrials()
	d.reg.prefer(d.book.Order)
	for _, name := range d.book.Order {
		if in, dropped := d.book.Models[name]; dropped && !in.Held || d.managed(name) {
			d.state(name, stateLoading)
		}
	}
	if err := d.store.tidy(); err != nil {
		d.log.Error("what an earlier run left in the store is not removed", "error", err)
	}
	if err := d.store.tidyPrefixes(d.saves); err != nil {
		d.log.Error("saved prefixes that nobody needs are not removed", "error", err)
	}
	for _, dir := range []string{d.drop, filepath.Dir(d.book.path)} {
		if err := tidyTemporary(dir); err != nil {
			d.log.Error("temporary files are not removed", "path", dir, "error", err)
		}
	}
	d.collect()
}

// close saves the prefixes of the models that serve, until the deadline of ctx at most,
// waits for versions on their way out and closes all. Nothing may ask for them any
// more. Versions that were replaced are not saved: nobody would look for that, and their
// directories may be gone.
func (d *deployer) close(ctx context.Context) {
	d.pardonTrials()
	list := d.reg.all()
	if d.saves && !d.savePrefixes(ctx, list, saveGrace) {
		return // the end of the process frees the memory that is being saved
	}
	for _, s := range list {
		d.retire(s)
	}
	d.drained.Wait()
}

// save stores the book, and then removes what it no longer names. A book that cannot
// be stored is tried again once a minute.
func (d *deployer) save() {
	d.book.Order = d.reg.defaults()
	err := d.book.save()
	if err != nil && d.book.unsaved.IsZero() {
		d.log.Error("state of installed models is not saved: a start would find the state before", "error", err)
	}
	if err != nil {
		d.book.unsaved = d.now()
		return
	}
	d.book.unsaved = time.Time{}
	d.collect()
}

// collect removes from the store what no installed model uses. Pages of a version
// that still drains stay mapped though its name is gone. What the book on the disk
// names must stay: it is what a start after a power cut would look for.
func (d *deployer) collect() {
	if !d.book.unsaved.IsZero() || d.keepAll {
		return
	}
	keep := maps.Clone(d.kept)
	if keep == nil {
		keep = map[string]bool{}
	}
	for _, in := range d.book.Updates {
		keep[in.Key] = true
	}
	for _, in := range d.book.Models {
		keep[in.Key] = true
		if in.Trial != nil {
			keep[in.Trial.Before.Key] = true
		}
	}
	if err := d.store.collect(keep); err != nil {
		d.log.Error("versions that nobody needs are not removed", "error", err)
	}
}

// digestOf reads a stored file again.
func digestOf(ctx context.Context, path string) (string, error) {
	rep, err := vqf.Verify(ctx, path, vqf.VerifyOptions{}, beating(ctx))
	if err != nil {
		return "", err
	}
	if rep.SHA256 == "" {
		return "", fmt.Errorf("%s: %w", path, fs.ErrInvalid)
	}
	return rep.SHA256, nil
}
