// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"windhover/appliance/disk"
	"windhover/control"
	"windhover/control/ota"
)

// Box is what an appliance does for a machine.
type Box interface {
	// Do carries out one step and returns when it is done; each may be asked for again
	// after a restart. An error with a code (control.Error) keeps it; any other counts as
	// the code of its phase, and ErrLater that it is to be asked for again.
	//
	//	Download  the file is whole and as signed; at once, if the store has it
	//	Verify    its structure is sound; at once, if the store has it
	//	Stage     it is in the store, for good
	//	Load      it is loaded, beside the version that serves or after that was unloaded
	//	Probe     it answers as it has to
	//	Switch    it takes the requests from now on
	//	Observe   it has held for as long as it had to
	//	Restore   an installed version serves; at once, if it does. What else is loaded
	//	          under the name is unloaded
	//	Withdraw  nothing serves under the name
	Do(ctx context.Context, step Run) error
	// Collect removes versions from the store. What is mapped may lose its name.
	Collect(keep map[ota.Digest]bool) error
	// Report tells those who want to know. It must be quick.
	Report(Report)
}

// ErrLater says that a step cannot be begun yet: what it waits for is a time of day, or
// somebody who has not come. The others go on meanwhile.
var ErrLater = errors.New("rollout: not yet")

// askAgain is how often a step that cannot be begun yet is asked for.
const askAgain = 30 * time.Second

// pauseAfterFull is how long storing waits after it failed.
const pauseAfterFull = time.Minute

// Machine carries out what Step decides.
type Machine struct {
	store Store
	box   Box

	mu    sync.Mutex // guards state, which Run's goroutine alone sets
	state State

	steps []Run   // waiting
	later []Run   // cannot be begun yet
	again []Event // likewise, for the end of the pause
	dirty bool    // the state on the disk is an older one
	owed  bool    // a Collect that waits until it is not

	stop  func() // ends the step that runs; nil: none does
	now   Run    // which that is
	given bool   // up, or to be begun again: its result counts for nothing
}

// Open reads the state. Nothing is done before Run.
func Open(store Store, box Box) (*Machine, error) {
	state, err := store.Load()
	if err != nil {
		return nil, err
	}
	return &Machine{store: store, box: box, state: state}, nil
}

// State is a copy of what is remembered; documents are judged by its Memory.
func (m *Machine) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.clone()
}

// Run starts with Boot and carries out what follows from it and from events, until the
// context ends or, if idle says so, nothing is left to do. An update that is cut off by
// the end of the context begins again at the next Run.
func (m *Machine) Run(ctx context.Context, events <-chan Event, idle func(State) bool) error {
	results := make(chan error, 1) // of the one step that runs
	retry := time.NewTimer(pauseAfterFull)
	retry.Stop()
	defer retry.Stop()
	waiting := false // for it
	ask := time.NewTicker(askAgain)
	defer ask.Stop()
	m.handle(Boot{})
	for {
		m.makeWay()
		if m.stop == nil && len(m.steps) > 0 {
			m.start(ctx, results)
		}
		if m.stop == nil && len(m.again) == 0 && !m.dirty && idle != nil && idle(m.state.clone()) {
			return nil
		}
		if (m.dirty || len(m.again) > 0) && !waiting {
			retry.Reset(pauseAfterFull)
			waiting = true
		}
		select {
		case <-ctx.Done():
			if m.stop != nil {
				<-results
				m.stop()
				m.stop = nil
			}
			m.handle(Stopping{})
			return context.Cause(ctx)
		case e := <-events:
			if _, look := e.(Look); look {
				m.askLater()
				continue
			}
			m.handle(e)
		case <-ask.C:
			m.askLater()
		case err := <-results:
			m.stop()
			m.stop = nil
			if !m.given && ctx.Err() == nil {
				m.result(m.now, err)
			}
		case <-retry.C:
			waiting = false
			m.retry()
		}
	}
}

// urgency orders steps: what serves first, then what is on trial, then what only waits
// for a network.
func (p Phase) urgency() int {
	switch p {
	case Download:
		return 2
	case Observe:
		return 1
	}
	return 0
}

// makeWay ends a step that takes its time for one that should not wait for it; it is
// begun again afterwards.
func (m *Machine) makeWay() {
	if m.stop == nil || m.given {
		return
	}
	if slices.ContainsFunc(m.steps, func(r Run) bool { return r.Phase.urgency() < m.now.Phase.urgency() }) {
		m.stop()
		m.given = true
		m.steps = append(m.steps, m.now)
	}
}

// askLater puts steps that could not be begun back into the queue.
func (m *Machine) askLater() {
	m.steps, m.later = append(m.steps, m.later...), nil
}

// start runs the most urgent step that waits.
func (m *Machine) start(ctx context.Context, results chan<- error) {
	first := 0
	for i, r := range m.steps {
		if r.Phase.urgency() < m.steps[first].Phase.urgency() {
			first = i
		}
	}
	m.now, m.given = m.steps[first], false
	m.steps = slices.Delete(m.steps, first, first+1)
	ctx, m.stop = context.WithCancel(ctx)
	step := m.now
	go func() { results <- m.box.Do(ctx, step) }()
}

func (m *Machine) result(step Run, err error) {
	if errors.Is(err, ErrLater) {
		m.later = append(m.later, step)
		return
	}
	d := Done{step.Model, step.Phase, step.Version.SHA256}
	if err == nil {
		m.handle(d)
		return
	}
	m.handle(Failed{d, coded(step.Phase, err)})
}

// handle lets an event take its course.
func (m *Machine) handle(e Event) {
	next, actions := m.state.Step(e)
	var then []Event
	for _, a := range actions {
		switch a := a.(type) {
		case Save:
			err := m.store.Save(next)
			if err != nil && a.Must {
				m.handle(unsaved{e, storage(err)})
				return
			}
			m.dirty = err != nil
		case Run:
			m.steps = append(m.steps, a)
		case Stop:
			m.abandon(a.Model)
		case Collect:
			m.owed = true
		case Again:
			m.again = append(m.again, a.Event)
		case Then:
			then = append(then, a.Event)
		case Report:
			m.box.Report(a)
		}
	}
	m.mu.Lock()
	m.state = next
	m.mu.Unlock()
	m.collect()
	for _, e := range then {
		m.handle(e)
	}
}

// abandon takes the steps of the update of a model out of the queue and ends the one
// that runs. That an installed version serves again is no step of an update.
func (m *Machine) abandon(model string) {
	of := func(r Run) bool { return r.Model == model && r.Phase != Restore && r.Phase != Withdraw }
	m.steps, m.later = slices.DeleteFunc(m.steps, of), slices.DeleteFunc(m.later, of)
	if m.stop != nil && of(m.now) {
		m.stop()
		m.given = true
	}
}

// collect removes what is no longer named by the state on the disk, which is what a
// start would look for.
func (m *Machine) collect() {
	if m.owed && !m.dirty {
		m.owed = m.box.Collect(m.state.Installed()) != nil
	}
}

// retry stores what could not be stored, and brings events again.
func (m *Machine) retry() {
	if m.dirty {
		m.dirty = m.store.Save(m.state) != nil
		m.collect()
	}
	again := m.again
	m.again = nil
	for _, e := range again {
		m.handle(e)
	}
}

// storage is an error of the disk as others see it.
func storage(err error) *control.Error {
	if disk.Full(err) {
		return control.Errorf(control.InsufficientStore, "the state cannot be stored, the disk is full: remove a model or give paths.state a larger disk")
	}
	return control.Errorf(control.Internal, "the state cannot be stored: %v", err)
}

// coded gives an error the code of its phase, unless it has one.
func coded(p Phase, err error) *control.Error {
	var e *control.Error
	switch {
	case errors.As(err, &e):
		return e
	case disk.Full(err):
		return control.Errorf(control.InsufficientStore, "%v", err)
	}
	code := map[Phase]control.Code{
		Download: control.DownloadFailed, Verify: control.FormatInvalid, Load: control.LoadFailed, Restore: control.LoadFailed,
		Probe: control.HealthCheckFailed, Switch: control.HealthCheckFailed, Observe: control.HealthCheckFailed,
	}[p]
	if code.Name == "" {
		code = control.Internal
	}
	return control.Errorf(code, "%v", err)
}
