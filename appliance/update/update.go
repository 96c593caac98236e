// SPDX-License-Identifier: Apache-2.0

package update

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"windhover/appliance/fetch"
	"windhover/appliance/rollout"
	"windhover/control"
	"windhover/control/ota"
)

// Config is what an Updater needs. The fields from Limits on may be nil.
type Config struct {
	Judge  func() ota.Judge // with the keys of now; asked for each document
	Store  rollout.Store    // its directory holds plans too
	Fetch  *fetch.Fetcher   // of this Updater alone
	Clock  func() ota.Clock // SystemClock
	Device Device
	Limits func() Limits // of this device now, whatever a document says; nil: none

	Report func(control.Reported)        // what the fleet is told, whenever it changes
	Event  func(control.Occurrence)      // model_ready, model_failed, rolled_back
	Bytes  func(network, reused int64)   // of a download, at its end
	Told   func(r rollout.Report)        // for a log: every report of the state machine but progress
	Retry  func(tries int) time.Duration // pause before a version that failed for a reason that passes is tried again; nil: 1 min, doubled up to 6 h, half of it random
}

// Limits are what a download may cost. The zero value has none.
type Limits struct {
	Window   ota.Window // when it may run, beside the document's
	MaxBPS   int64      // bytes a second
	MaxBytes int64      // of one model over the network
}

// least is the smaller of two limits, of which 0 is none.
func least(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Updater makes an appliance run what is wanted of it.
type Updater struct {
	cfg     Config
	machine *rollout.Machine
	events  chan rollout.Event
	wake    chan struct{} // capacity 1: there is something to think about
	done    chan struct{} // Run has ended

	files sync.Mutex // the directory of downloads

	mu      sync.Mutex                         // guards what follows
	look    bool                               // what could not be begun may begin now
	inbox   map[string][]byte                  // documents that came, by target; empty: taken back
	plans   map[ota.Digest]*plan               //
	asking  map[ota.Digest]int                 // plans that the machine is being told of
	trials  map[ota.Digest]time.Time           // since when a version is on trial
	wishes  map[string]*wish                   // of the document that counts, by model
	waiters map[*waiter]bool                   // commands that wait for an end
	moved   map[ota.Digest]control.JobFraction // how far downloads are

	// Of the goroutine that thinks.
	docs   map[string]*document
	wanted *ota.Accepted // which of them counts, nil: none
	chose  bool          // its default model was set
	memory ota.Memory
	news   bool   // in memory that the machine does not know
	told   []byte // what was reported last
}

// Open reads what is remembered. Nothing is done before Run. The error is that of a
// state that this program cannot read; it is left as it is.
func Open(cfg Config) (*Updater, error) {
	if cfg.Limits == nil {
		cfg.Limits = func() Limits { return Limits{} }
	}
	if cfg.Report == nil {
		cfg.Report = func(control.Reported) {}
	}
	if cfg.Event == nil {
		cfg.Event = func(control.Occurrence) {}
	}
	if cfg.Told == nil {
		cfg.Told = func(rollout.Report) {}
	}
	if cfg.Retry == nil {
		cfg.Retry = pause
	}
	u := &Updater{
		cfg: cfg, events: make(chan rollout.Event), wake: make(chan struct{}, 1), done: make(chan struct{}),
		inbox: map[string][]byte{}, plans: map[ota.Digest]*plan{}, asking: map[ota.Digest]int{}, trials: map[ota.Digest]time.Time{},
		wishes: map[string]*wish{}, waiters: map[*waiter]bool{}, moved: map[ota.Digest]control.JobFraction{}, docs: map[string]*document{},
	}
	var err error
	if u.machine, err = rollout.Open(cfg.Store, box{u}); err != nil {
		return nil, err
	}
	u.memory = u.machine.State().Memory
	return u, nil
}

// Run lets what is installed serve, goes on with what was under way, and does what
// documents and commands ask for, until ctx ends. It may be called once.
func (u *Updater) Run(ctx context.Context) {
	var thinking sync.WaitGroup
	thinking.Go(func() { u.think(ctx) })
	// Without an idle function it ends with the context alone.
	_ = u.machine.Run(ctx, u.events, nil)
	close(u.done)
	thinking.Wait()
}

// State is what is remembered.
func (u *Updater) State() rollout.State { return u.machine.State() }

// Manages says whether updates have a model of that name.
func (u *Updater) Manages(model string) bool {
	m := u.machine.State().Models[model]
	return m != nil && (m.Current != nil || m.Update != nil)
}

// Reconsider looks at once again at documents that did not count and downloads that
// wait: keys or limits have changed.
func (u *Updater) Reconsider() {
	u.mu.Lock()
	u.look = true
	u.mu.Unlock()
	u.ponder()
}

// send hands an event to the machine; false if it is not going to take it.
func (u *Updater) send(ctx context.Context, e rollout.Event) bool {
	select {
	case u.events <- e:
		return true
	case <-ctx.Done():
	case <-u.done:
	}
	return false
}

// ponder wakes the goroutine that thinks.
func (u *Updater) ponder() {
	select {
	case u.wake <- struct{}{}:
	default: // it is going to anyway
	}
}

// partOf is where the fetcher leaves a whole file.
func (u *Updater) partOf(sum ota.Digest) string {
	return filepath.Join(u.cfg.Fetch.Dir, sum.String()+".part")
}

// progress notes how far a download is, and tells who waits for it.
func (u *Updater) progress(sum ota.Digest, done, total int64) {
	f := control.JobFraction{Done: done, Total: total}
	if total > 0 {
		f.Pct = int(done * 100 / total)
	}
	u.mu.Lock()
	before := u.moved[sum]
	u.moved[sum] = f
	for w := range u.waiters {
		if w.sum == sum && w.report != nil {
			w.report(control.JobProgress{Phase: string(rollout.Download), Done: done, Total: total})
		}
	}
	u.mu.Unlock()
	if f.Pct != before.Pct {
		u.ponder()
	}
}
