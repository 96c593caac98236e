// SPDX-License-Identifier: Apache-2.0

package update

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"windhover/appliance/fetch"
	"windhover/appliance/rollout"
	"windhover/control"
	"windhover/control/ota"
)

// box is an Updater as the state machine sees it.
type box struct{ *Updater }

// Do carries out one step.
func (b box) Do(ctx context.Context, s rollout.Run) error {
	d := b.cfg.Device
	switch s.Phase {
	case rollout.Download:
		return b.download(ctx, s)
	case rollout.Verify:
		if d.Has(s.Version.SHA256) {
			return nil
		}
		return d.Verify(ctx, s.Model, s.Version, b.partOf(s.Version.SHA256))
	case rollout.Stage:
		return d.Stage(ctx, s.Model, s.Version, func(to string) error { return b.cfg.Fetch.Stage(s.Version.SHA256, to) })
	case rollout.Load:
		return d.Load(ctx, s.Model, s.Version)
	case rollout.Probe:
		return d.Probe(ctx, s.Model, s.Version, b.health(s.Version.SHA256))
	case rollout.Switch:
		return d.Switch(ctx, s.Model, s.Version)
	case rollout.Observe:
		return b.observe(ctx, s)
	case rollout.Restore:
		return d.Restore(ctx, s.Model, s.Version)
	case rollout.Withdraw:
		return d.Withdraw(ctx, s.Model)
	}
	return fmt.Errorf("update: internal error: no step %q", s.Phase)
}

// health is what a version has to hold; nobody knows any more what a document asked
// for if its plan is lost, and the least that any asks for counts.
func (u *Updater) health(sum ota.Digest) ota.Health {
	if p := u.plan(sum); p != nil {
		return p.Health
	}
	return ota.Health{MinTPSRatio: 0.7, ObserveS: 300, MaxErrorRatio: 0.05}
}

// download brings the file of a version into the directory of the fetcher.
func (b box) download(ctx context.Context, s rollout.Run) error {
	sum := s.Version.SHA256
	if b.cfg.Device.Has(sum) {
		return nil
	}
	p := b.plan(sum)
	if p == nil {
		return rollout.ErrLater
	}
	clock := b.cfg.Clock()
	window, err := ota.ParseWindow(p.Rollout.Window)
	if err != nil {
		return control.Errorf(control.BadRequest, "%v", err) // it was judged; a file of the state was changed
	}
	if p.wait(b.cfg.Judge().Device.Name) > 0 || clock.Sane && !b.open(window, clock.Now) {
		return rollout.ErrLater
	}
	b.files.Lock()
	defer b.files.Unlock()
	ctx, stop := b.within(ctx, window)
	defer stop()
	f := b.cfg.Fetch
	data, err := f.Document(ctx, []string{p.Model.Index.URL}, ota.MaxIndex)
	if err != nil {
		return err
	}
	x, err := ota.OpenIndex(data, &p.Model, b.cfg.Judge().Keys.Index)
	if err != nil {
		return err
	}
	lim := b.cfg.Limits()
	f.Progress = func(done, total int64) { b.progress(sum, done, total) }
	res, err := f.Fetch(ctx, fetch.Artifact{
		URLs: p.Model.URLs, Index: x, MaxBPS: least(p.Rollout.MaxBPS, lim.MaxBPS), MaxBytes: least(p.Rollout.MaxBytes, lim.MaxBytes), Installed: b.installed(),
	})
	if b.cfg.Bytes != nil {
		b.cfg.Bytes(res.Network, res.Reused)
	}
	return err
}

// within ends a download when a window closes; it goes on when it opens.
func (u *Updater) within(ctx context.Context, window ota.Window) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		look := time.NewTicker(lookAtWindow)
		defer look.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
				if c := u.cfg.Clock(); c.Sane && !u.open(window, c.Now) {
					cancel(rollout.ErrLater)
				}
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// lookAtWindow is how often that is looked at.
const lookAtWindow = 10 * time.Second

// open says whether a download may run, by a document and by this device.
func (u *Updater) open(window ota.Window, now time.Time) bool {
	return window.Open(now) && u.cfg.Limits().Window.Open(now)
}

// installed are the files that may have blocks of another one.
func (u *Updater) installed() []string {
	var list []string
	for sum := range u.machine.State().Installed() {
		list = append(list, u.cfg.Device.Path(sum)) // one that is not there has none
	}
	return list
}

// tidy removes downloads that nobody wants. The lock of files is held.
func (u *Updater) tidy(keep map[ota.Digest]bool) error {
	return u.cfg.Fetch.Tidy(func(name string) bool {
		var sum ota.Digest
		return sum.UnmarshalText([]byte(name)) == nil && keep[sum]
	})
}

// Collect removes what the state does not name; of downloads what is going to be asked
// for again stays. While one runs their directory is its own; the machine asks again
// after the next event.
func (b box) Collect(keep map[ota.Digest]bool) error {
	err := b.cfg.Device.Collect(keep)
	keep = maps.Clone(keep)
	b.mu.Lock()
	for _, w := range b.wishes {
		if !w.due.IsZero() {
			keep[w.model.SHA256] = true
		}
	}
	b.mu.Unlock()
	err = errors.Join(err, b.dropPlans(keep))
	if !b.files.TryLock() {
		return errors.Join(err, errBusy)
	}
	defer b.files.Unlock()
	return errors.Join(err, b.tidy(keep))
}

// errBusy says that the directory of downloads was left alone.
var errBusy = errors.New("update: a download runs")

// observe waits until a version has held for as long as it has to.
func (b box) observe(ctx context.Context, s rollout.Run) error {
	h := b.health(s.Version.SHA256)
	b.mu.Lock()
	began, known := b.trials[s.Version.SHA256]
	if !known {
		began = time.Now()
		b.trials[s.Version.SHA256] = began
	}
	b.mu.Unlock()
	look := time.NewTicker(max(min(h.Observe()/20, 5*time.Second), 10*time.Millisecond))
	defer look.Stop()
	for time.Since(began) < h.Observe() {
		if err := rollout.Healthy(h, 0, b.cfg.Device.Sample(s.Model)); err != nil {
			return err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return rollout.Healthy(h, 0, b.cfg.Device.Sample(s.Model))
}
