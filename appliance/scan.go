// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"time"

	"windhover/control"
)

const (
	// rescan is how often the drop directory is read whatever the events say:
	// they get lost on overflow and do not exist on network file systems.
	rescan = 60 * time.Second
	// recheck is how soon a file that has not arrived whole is looked at again. A
	// writer that closes its file gives no event we could ask for.
	recheck = 300 * time.Millisecond
	// stallAfter is how long a file may stop growing before people are told.
	stallAfter = 10 * time.Minute
)

// sighting is what the scans know of one candidate.
type sighting struct {
	candidate
	since   time.Time      // since when the files have been left alone
	ready   bool           // judged good
	failure *control.Error // judged bad
	marked  bool           // there is a marker; removing that of a failure asks for another try
	tried   time.Time      // last attempt to deploy it
	due     time.Time      // an unfinished file: when to look again
	stalled bool           // people were told
	touched bool           // size and time are what they were, and yet something happened to it
	regime  string         // what a failure depends on beside the files
	review  string         // what the verdict on signatures was last held against

	// Of the last try, for the marker of a failure and the quarantine.
	digest, version string
	ends            int          // runs of the daemon that ended with it
	again           *quarantined // the same bytes were found bad before
}

// refusal is an entry that cannot be a model.
type refusal struct {
	reason string
	marked bool
}

// scan looks at the drop directory once and acts on every difference. Each file is
// judged by itself: a bad or unfinished one delays no other. It returns when to
// look again without being woken.
func (d *deployer) scan(ctx context.Context) time.Duration {
	d.work.Lock()
	defer d.work.Unlock()
	ctx = withBeat(ctx, d.pulse)
	defer d.pulse.look("", 0)
	d.pulse.look("reading notes", lookLimit)
	d.settleNotes()
	d.pulse.look("reading the trusted keys", lookLimit)
	d.takeOver()
	d.who.refresh()
	d.pulse.look("reading the drop directory", lookLimit)
	v, err := look(d.drop, d.incumbent)
	if err != nil {
		// What serves goes on: the directory may come back.
		if !d.blind {
			d.log.Error("the drop directory cannot be read: models that serve go on, new ones are not seen", "path", d.drop, "error", err)
		}
		d.blind = true
		for _, name := range slices.Sorted(maps.Keys(d.book.Models)) {
			if !d.book.Models[name].Held {
				d.revive(ctx, name) // after a start
			}
		}
		return rescan
	}
	d.blind = false
	for _, path := range v.Orphans {
		if err := dropOrphan(path); err != nil {
			d.log.Error("a marker whose file is gone is not removed", "path", path, "error", err)
		}
	}
	d.refuse(v.Refused)
	here := map[string]bool{}
	for _, c := range v.Found {
		here[c.Name] = true
	}
	for name := range v.Hidden {
		here[name] = true // what served goes on
	}
	next := d.linger(here)
	d.forget(here)
	for _, name := range slices.Sorted(maps.Keys(v.Hidden)) {
		if !d.book.Models[name].Held {
			d.revive(ctx, name)
		}
	}
	for _, c := range v.Found {
		if ctx.Err() != nil {
			return rescan
		}
		d.pulse.look("looking at "+c.Entry, lookLimit)
		if wait := d.consider(ctx, c); wait > 0 {
			next = min(next, wait)
		}
		if d.log.Enabled(ctx, slog.LevelDebug) {
			d.log.Debug("drop entry looked at", "entry", c.Entry, "model", c.Name, "what", d.standing(c.Name))
		}
	}
	next = min(next, d.observe(ctx))
	d.tellSpace()
	if !d.book.unsaved.IsZero() && d.now().Sub(d.book.unsaved) >= rescan {
		d.save() // last: by now the book names what was found
	}
	return next
}

// standing is what was decided about a model of the drop directory, for the log.
func (d *deployer) standing(name string) string {
	switch s := d.seen[name]; {
	case s == nil:
		return "gone"
	case d.managed(name):
		return "belongs to updates"
	case s.Skip:
		return "held back"
	case s.ready:
		return "serves"
	case s.failure != nil:
		return "refused: " + s.failure.Code.Name
	case s.stalled:
		return "stalled"
	}
	return "arrives"
}

// incumbent is the entry that a model came from.
func (d *deployer) incumbent(name string) string {
	if s, ok := d.seen[name]; ok {
		return s.Entry
	}
	return d.book.Models[name].Entry
}

// refuse tells of entries that cannot be models, once each.
func (d *deployer) refuse(entries map[string]string) {
	for entry := range d.refused {
		if entries[entry] == "" {
			delete(d.refused, entry) // gone, or a model after all
			delete(d.unmarked, entry)
		}
	}
	for entry, reason := range entries {
		r := d.refused[entry]
		if r == nil || r.reason != reason {
			d.log.Error("model refused", "entry", entry, "error", reason)
			r = &refusal{reason: reason}
			d.refused[entry] = r
		}
		if !r.marked {
			r.marked = d.mark(entry, func() error { return markRefused(d.drop, entry, reason, d.now()) })
		}
	}
}

// mark writes a marker and reports whether that worked. A failure is logged once,
// and tried again once a minute: on a full disk or in a read-only directory it
// happens every time, and the attempt itself is an event that wakes the scanner.
func (d *deployer) mark(entry string, write func() error) bool {
	last, failing := d.unmarked[entry]
	if failing && d.now().Sub(last) < rescan {
		return false
	}
	err := write()
	if err == nil {
		delete(d.unmarked, entry)
		return true
	}
	if !failing {
		d.log.Error("marker is not written", "entry", entry, "error", err)
	}
	d.unmarked[entry] = d.now()
	return false
}

// goneAfter is how long a file has to be gone before its model goes: many tools that
// replace a file remove it first.
const goneAfter = time.Second

// linger counts models as here whose files have not been gone for long. It returns when
// to look again, at most rescan.
func (d *deployer) linger(here map[string]bool) time.Duration {
	gone := map[string]time.Time{}
	note := func(name string) {
		if !here[name] && !d.managed(name) {
			gone[name] = d.now()
		}
	}
	for name := range d.seen {
		note(name)
	}
	for name := range d.book.Models {
		note(name)
	}
	next := rescan
	for name := range gone {
		if since, known := d.missing[name]; known {
			gone[name] = since
		}
		if left := d.grace - d.now().Sub(gone[name]); left > 0 {
			here[name] = true
			next = min(next, left)
		}
	}
	d.missing = gone
	return next
}

// forget undeploys every model whose file is gone.
func (d *deployer) forget(here map[string]bool) {
	changed := false
	for name, s := range d.seen {
		if !here[name] && d.managed(name) {
			delete(d.seen, name) // another model, which was refused
			continue
		}
		if !here[name] {
			delete(d.unmarked, s.Entry)
			d.log.Info("model removed", "model", name)
			delete(d.seen, name)
			d.retire(d.reg.withdraw(name))
			changed = true
		}
	}
	for name := range d.book.Models {
		if !here[name] {
			delete(d.book.Models, name)
			if !d.managed(name) {
				d.retire(d.reg.withdraw(name)) // known since the start
			}
			changed = true
		}
	}
	if changed {
		d.save()
	}
}

// sight finds or makes the sighting of a candidate as it is now.
func (d *deployer) sight(c candidate) *sighting {
	s, known := d.seen[c.Name]
	signed := known && s.same(c) && !slices.Equal(s.sigContents(), c.sigContents())
	switch {
	case !known || !s.same(c):
		s = &sighting{candidate: c, since: d.now()}
		d.seen[c.Name] = s
		if doc, held := heldByFailure(d.drop, c); held && !c.Skip && !d.managed(c.Name) {
			s.failure, s.marked, s.regime = doc.failure(), true, doc.Regime
			d.remember(s) // a failure of an earlier run
		}
		d.recognise(c.Name)
	case !s.untouched(c):
		s.candidate, s.since, s.due = c, d.now(), time.Time{}
		s.touched = s.ready && !d.book.Models[c.Name].linked(c)
		if s.failure != nil && s.failure.Code == control.Forbidden {
			s.failure = nil // somebody gave us the right, perhaps
		}
	case signed:
		s.since, s.due = d.now(), time.Time{}
	}
	if s.Sigs = c.Sigs; signed && s.failure != nil && !s.ready && s.regime != "" {
		s.failure = nil // the signature may be what was lacking
	}
	s.Skip = c.Skip
	return s
}

// consider decides what to do about one candidate and does it. It returns when to
// look again, 0 for no need to.
func (d *deployer) consider(ctx context.Context, c candidate) time.Duration {
	s := d.sight(c)
	switch {
	case d.managed(c.Name):
		d.taken(s)
		return 0
	case s.Skip:
		d.holdBack(s)
		return 0
	case s.ready:
		return d.serves(ctx, s)
	case s.failure != nil && !d.again(s):
		_ = d.dismiss(s) // what failed is told already
		d.revive(ctx, c.Name)
		return 0
	}
	now := d.now()
	if now.Before(s.due) {
		return s.due.Sub(now)
	}
	still := now.Sub(s.since)
	at := s.arrived(still)
	switch {
	case errors.Is(at.Err, fs.ErrNotExist), errors.Is(at.Err, errNotRegular):
		return recheck // replaced between listing and look: the next scan knows
	case errors.Is(at.Err, errUnreadable):
		d.fail(ctx, s, unreadable(s.Entry, at.Err))
		return 0
	case at.Err != nil:
		d.fail(ctx, s, coded(at.Err, control.FormatInvalid))
		return 0
	case !at.Complete:
		d.wait(s, at)
		return d.later(ctx, s, now, pause(still, at.Unsure))
	}
	s.tried = d.now()
	if err := s.findTokenizer(); err != nil {
		if s.directory() && still < stallAfter {
			// The weights came first: the model is complete with its tokenizer.
			d.await(s, err)
			return d.later(ctx, s, now, pause(still, false))
		}
		d.fail(ctx, s, coded(err, control.FormatInvalid))
		return 0
	}
	if err := d.findSignatures(s.candidate); err != nil {
		if still < signatureWait {
			d.await(s, err)
			return d.later(ctx, s, now, pause(still, false))
		}
		d.fail(ctx, s, coded(err, control.SignatureMissing))
		return 0
	}
	return d.deploy(ctx, s)
}

// taken refuses a candidate whose name a model of updates has, which goes on.
func (d *deployer) taken(s *sighting) {
	if s.failure == nil {
		s.ready = false
		s.failure = control.Errorf(control.Incompatible, "the model name %s belongs to updates over the air: rename this file, or have that model removed (windhover remove %s) and then remove %s.failed", s.Name, s.Name, s.Entry)
		d.log.Error("model refused", "model", s.Name, "code", s.failure.Code.Name, "error", s.failure.Message, "still_serving", true)
	}
	if !s.marked {
		d.markFailed(s)
	}
}

// later leaves a candidate that is not complete alone for a while; what served
// before serves meanwhile.
func (d *deployer) later(ctx context.Context, s *sighting, now time.Time, wait time.Duration) time.Duration {
	d.revive(ctx, s.Name)
	s.due = now.Add(wait)
	return wait
}

// pause is how long to leave an unfinished file alone: the longer nothing has
// happened to it, the longer, so that one that is never finished costs nothing.
func pause(still time.Duration, unsure bool) time.Duration {
	if unsure && still < settle {
		return settle - still
	}
	return min(max(still/4, recheck), rescan)
}

// holdBack stops serving a model that got a .skip file.
func (d *deployer) holdBack(s *sighting) {
	if d.reg.known(s.Name) {
		d.log.Info("model held back", "model", s.Name)
		d.retire(d.reg.withdraw(s.Name))
		d.mark(s.Entry, func() error { return clearMarkers(d.drop, s.candidate) })
	}
	if in, ok := d.book.Models[s.Name]; ok && !in.Held {
		in.Held = true
		d.book.Models[s.Name] = in
		d.save()
	}
	*s = sighting{candidate: s.candidate, since: s.since}
}

// markFailed puts the failure of a candidate beside it.
func (d *deployer) markFailed(s *sighting) {
	s.marked = d.mark(s.Entry, func() error {
		return markFailed(d.drop, s, d.reg.serves(s.Name), d.now())
	})
}

// again reports whether a candidate that failed is to be tried once more: somebody
// removed the marker, or what was lacking may be there now.
func (d *deployer) again(s *sighting) bool {
	if !s.marked {
		d.markFailed(s)
		return false
	}
	if !exists(s.marker(d.drop, "failed")) {
		s.failure = nil
		return true
	}
	if s.regime != "" && s.regime != d.who.regimeOf(s.failure.Code) {
		s.failure = nil
		return true
	}
	return s.failure.Needed > 0 && d.now().Sub(s.tried) >= rescan && d.room(s.failure.Code) >= s.failure.Needed
}

// room is how many bytes there are of what a code says is lacking.
func (d *deployer) room(c control.Code) int64 {
	switch c {
	case control.InsufficientStore:
		free, _ := freeSpace(d.store.dir)
		return free
	case control.InsufficientMem:
		return d.memory()
	default:
		return 0
	}
}
