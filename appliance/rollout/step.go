// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"maps"
	"slices"
	"strings"

	"windhover/control"
	"windhover/control/ota"
)

// turn is one call of Step.
type turn struct {
	State
	save, must bool
	actions    []Action
}

// Step is what an event makes of a state, and what is to be done. It changes nothing
// but what it returns. Events that no longer mean anything make nothing.
func (s State) Step(e Event) (State, []Action) {
	t := &turn{State: s.clone()}
	switch e := e.(type) {
	case Boot:
		t.boot(nil)
	case Want:
		t.wanted(e)
	case Seen:
		t.Memory, t.save = Merge(t.Memory, e.Memory), true
	case Done:
		t.done(e)
	case Failed:
		t.failed(e)
	case Cancel:
		t.cancel(e.Model)
	case Rollback:
		t.rollback(e)
	case Forgive:
		if m := t.Models[e.Model]; m != nil {
			m.forgive(e.SHA256)
			t.save = true
		}
	case Remove:
		t.remove(e)
	case Stopping:
		for _, m := range t.Models {
			if m.Tentative && m.BootsLeft != trialBoots {
				m.BootsLeft, t.save = trialBoots, true
			}
		}
	case begin:
		t.begin(e.Model)
	case unsaved:
		t.unsaved(e)
	}
	if t.save {
		t.actions = slices.Insert(t.actions, 0, Action(Save{t.must}))
	}
	return t.State, t.actions
}

func (t *turn) add(a ...Action) { t.actions = append(t.actions, a...) }

// mustSave makes everything that follows wait for the disk.
func (t *turn) mustSave() { t.save, t.must = true, true }

// run begins a phase of an update.
func (t *turn) run(name string, m *Slot, p Phase) {
	m.Update.phase = p
	t.report(name, m.Update, Report{Status: Running, Phase: p})
	t.add(Run{name, p, m.Update.Version})
}

func (t *turn) report(name string, u *Update, r Report) {
	r.Model, r.Version, r.Job, r.Rev = name, u.Version, u.Job, u.Rev
	t.add(r)
}

// Merge takes over what is to be remembered of documents. Nothing in it falls: a
// document may have been judged by a memory that is older than this one.
func Merge(have, next ota.Memory) ota.Memory {
	for name, floor := range have.Floors {
		next = next.Raise(name, floor)
	}
	next.Targets = maps.Clone(next.Targets)
	for target, seen := range have.Targets {
		if next.Targets == nil {
			next.Targets = map[string]ota.Seen{}
		}
		if seen.Rev > next.Targets[target].Rev {
			next.Targets[target] = seen
		}
	}
	if have.Time.After(next.Time) {
		next.Time = have.Time
	}
	return next
}

// wanted judges a version that is asked for.
func (t *turn) wanted(e Want) {
	m, u := t.Models[e.Model], e.Update
	u.Tries, u.phase, u.Keep = 0, "", max(u.Keep, 1)
	if e.Memory != nil {
		t.Memory, t.save = Merge(t.Memory, *e.Memory), true
	}
	reject := func(err *control.Error) { t.report(e.Model, &u, Report{Status: Rejected, Err: err}) }
	if floor := t.Memory.Floors[e.Model]; u.Release < floor {
		reject(control.Errorf(control.RollbackRejected, "release %d is below %d, which this device does not go below", u.Release, floor))
		return
	}
	if m == nil {
		m = new(Slot)
		t.Models[e.Model] = m
	}
	switch r := m.refused(&u); r.Code {
	case "":
	case m.owes(&u): // and tells it when it is back
		return
	case control.Canceled.Name:
		reject(control.Errorf(control.Canceled, "model %s was removed on this device: a later document installs it again", e.Model))
		return
	default:
		t.report(e.Model, &u, Report{Status: Rejected, RolledBack: r.Back && m.Current != nil,
			Err: control.Errorf(codeOf(r.Code), "version %s was tried before and refused", u.Version.Version)})
		return
	}
	before := m.Current // what served before the update under way
	if m.Tentative {
		before = m.Previous
	}
	is := m.Update
	if is != nil && is.SHA256 != u.SHA256 && before != nil && before.SHA256 == u.SHA256 {
		// A roll-out is taken back: at once, and not after a trial that would raise the floor.
		t.cancel(e.Model)
		is = nil
	}
	switch {
	case is != nil && is.SHA256 == u.SHA256: // by a later document
		u.Tries, u.phase = is.Tries, is.phase
		m.Update, m.Next, t.save = &u, nil, true
	case is != nil && m.Tentative: // its trial is not cut short
		m.Next = &u
		t.mustSave()
		t.report(e.Model, &u, Report{Status: Queued})
	case is == nil && m.Current != nil && m.Current.SHA256 == u.SHA256: // installed already
		m.Next, m.Current = nil, &u.Version
		t.Memory, t.save = t.Memory.Raise(e.Model, u.Release), true
		end := Report{Model: e.Model, Version: u.Version, Job: u.Job, Rev: u.Rev, Status: Succeeded}
		if len(m.owed) > 0 { // it is on its way back
			m.owed = append(m.owed, end)
		} else {
			t.add(end)
		}
	default:
		if is != nil {
			t.add(Stop{e.Model})
			t.report(e.Model, is, Report{Status: Canceled, Err: control.Errorf(control.Canceled, "version %s is asked for instead", u.Version.Version)})
			if is.phase == Load || is.phase == Probe {
				t.serve(e.Model, m)
			}
		}
		m.Update, m.Next = &u, nil
		t.mustSave()
		t.run(e.Model, m, Download)
	}
}

// done goes on from a step that was carried out.
func (t *turn) done(e Done) {
	m := t.Models[e.Model]
	if m == nil {
		return
	}
	switch e.Phase {
	case Restore:
		t.restored(e.Model, m, e.SHA256)
		return
	case Withdraw:
		if m.Current == nil {
			t.settleUp(m)
		}
		return
	}
	u := m.Update
	if u == nil || u.SHA256 != e.SHA256 || u.phase != e.Phase {
		return
	}
	switch e.Phase {
	case Download:
		t.run(e.Model, m, Verify)
	case Verify:
		t.run(e.Model, m, Stage)
	case Stage:
		if u.Tries >= maxTries {
			u.phase = Load // where it was each time
			t.fail(e.Model, m, control.Errorf(control.LoadFailed, "the device went down %d times while it tried version %s", u.Tries, u.Version.Version))
			return
		}
		// A version that kills the process is given up by this count.
		u.Tries++
		t.mustSave()
		t.run(e.Model, m, Load)
	case Load:
		t.run(e.Model, m, Probe)
	case Probe:
		m.forward(u.Version)
		t.mustSave()
		t.run(e.Model, m, Switch)
	case Switch:
		t.run(e.Model, m, Observe)
	case Observe:
		m.settle(u.Keep)
		t.Memory = t.Memory.Raise(e.Model, u.Release)
		m.Update = nil
		t.mustSave()
		t.report(e.Model, u, Report{Status: Succeeded})
		t.add(Collect{})
		t.next(e.Model, m)
	}
}

// failed goes on from a step that was not carried out.
func (t *turn) failed(e Failed) {
	m := t.Models[e.Model]
	if m == nil {
		return
	}
	if e.Phase == Restore {
		t.unrestored(e.Model, m, e)
		return
	}
	if u := m.Update; u != nil && u.SHA256 == e.SHA256 && u.phase == e.Phase {
		t.fail(e.Model, m, e.Err)
	}
}

// cancel gives up what is under way, and what waits for its end.
func (t *turn) cancel(name string) {
	if m := t.Models[name]; m != nil && m.Update != nil {
		m.Next = nil
		t.add(Stop{name})
		t.fail(name, m, control.Errorf(control.Canceled, "the update was canceled"))
	}
}

// fail gives an update up. If it has got as far as the version that serves, that
// serves again. It is done even if it cannot be stored: a start that finds the state
// before comes to the same end.
func (t *turn) fail(name string, m *Slot, err *control.Error) {
	u := m.Update
	back := m.Tentative || u.phase == Load || u.phase == Probe
	if m.Tentative {
		m.back()
	}
	m.refuse(u, err.Code, back)
	m.Update = nil
	t.save = true
	end := Report{Model: name, Version: u.Version, Job: u.Job, Rev: u.Rev, Status: Failure, Err: err, RolledBack: back}
	if err.Code == control.Canceled {
		end.Status = Canceled
	}
	if back {
		m.owed = append(m.owed, end)
		t.serve(name, m)
	} else {
		t.add(end)
	}
	t.add(Collect{})
	t.next(name, m)
}

// serve lets the current version serve, if there is one.
func (t *turn) serve(name string, m *Slot) {
	if m.Current != nil {
		t.add(Run{name, Restore, *m.Current})
		return
	}
	t.add(Run{Model: name, Phase: Withdraw})
}

// codeOf finds the code of a refusal by its name; one that a later program gave is none
// of ours.
func codeOf(name string) control.Code {
	for _, c := range control.Codes() {
		if c.Name == name {
			return c
		}
	}
	return control.HealthCheckFailed
}

// owes is the code of an end that the same demand has come to, and that is not told yet.
func (m *Slot) owes(u *Update) string {
	for _, r := range m.owed {
		if r.Version.SHA256 == u.SHA256 && r.Rev == u.Rev && r.Job == u.Job && r.Err != nil {
			return r.Err.Code.Name
		}
	}
	return ""
}

// settleUp tells the ends that waited for a step back.
func (t *turn) settleUp(m *Slot) {
	for _, r := range m.owed {
		t.add(r)
	}
	m.owed = nil
}

// next lets what was asked for meanwhile begin, by an event of its own: that it has to
// be stored must not hold up a step back.
func (t *turn) next(name string, m *Slot) {
	if m.Next != nil {
		t.add(Then{begin{name}})
	}
}

// begin is that event.
func (t *turn) begin(name string) {
	if m := t.Models[name]; m != nil && m.Next != nil && m.Update == nil {
		u := *m.Next
		m.Next, t.save = nil, true
		t.wanted(Want{Model: name, Update: u})
	}
}

// rollback is what somebody asked for. What is taken back is not installed again by the
// document that still asks for it.
func (t *turn) rollback(e Rollback) {
	m := t.Models[e.Model]
	reject := func(format string, args ...any) {
		t.add(Report{Model: e.Model, Job: e.Job, Status: Rejected, Err: control.Errorf(control.UnknownModel, format, args...)})
	}
	if m == nil || m.Current == nil || m.Previous == nil {
		reject("model %q has no version to go back to", e.Model)
		return
	}
	older := append([]Version{*m.Previous}, m.Kept...)
	steps := 1 + slices.IndexFunc(older, func(v Version) bool { return e.To == "" || v.Version == e.To })
	if steps == 0 {
		var names []string
		for _, v := range older {
			names = append(names, v.Version)
		}
		reject("version %s of model %s is not installed beside the one that serves: %s", e.To, e.Model, strings.Join(names, ", "))
		return
	}
	if m.Update != nil {
		t.add(Stop{e.Model})
		m.Next = nil
		t.report(e.Model, m.Update, Report{Status: Canceled, Err: control.Errorf(control.Canceled, "the model was rolled back"), RolledBack: m.Tentative})
		m.Update = nil
	}
	for range steps {
		given := *m.Current
		m.back()
		m.refuse(&Update{Version: given}, control.HealthCheckFailed, true)
	}
	t.mustSave() // what is said to be done is so after a restart too
	m.owed = append(m.owed, Report{Model: e.Model, Version: *m.Current, Job: e.Job, Status: Succeeded, RolledBack: true})
	t.serve(e.Model, m)
	t.add(Collect{})
}

// remove forgets a model, but neither its floor nor what was refused.
func (t *turn) remove(e Remove) {
	m := t.Models[e.Model]
	if m == nil || m.Current == nil && m.Update == nil {
		t.add(Report{Model: e.Model, Job: e.Job, Status: Rejected, Err: control.Errorf(control.UnknownModel, "no model %q is installed", e.Model)})
		return
	}
	removed := control.Errorf(control.Canceled, "the model was removed on this device")
	if m.Update != nil {
		t.add(Stop{e.Model})
		t.report(e.Model, m.Update, Report{Status: Canceled, Err: removed})
	}
	gone := &Slot{Refused: m.Refused, owed: append(m.owed, Report{Model: e.Model, Job: e.Job, Status: Succeeded})}
	if e.Wanted != nil {
		gone.forgive(e.Wanted.SHA256)
		gone.Refused = append(gone.Refused, Refusal{SHA256: e.Wanted.SHA256, Rev: e.Rev, Code: control.Canceled.Name})
		t.report(e.Model, &Update{Version: *e.Wanted, Rev: e.Rev}, Report{Status: Canceled, Err: removed})
	}
	t.Models[e.Model] = gone
	t.mustSave()
	t.add(Run{Model: e.Model, Phase: Withdraw}, Collect{})
}

// unsaved is what becomes of an event whose state had to be stored and was not.
func (t *turn) unsaved(e unsaved) {
	switch of := e.of.(type) {
	case Boot:
		t.boot(e.err)
	case Want:
		t.report(of.Model, &of.Update, Report{Status: Failure, Err: e.err})
	case Rollback:
		t.add(Report{Model: of.Model, Job: of.Job, Status: Failure, Err: e.err})
	case Remove:
		t.add(Report{Model: of.Model, Job: of.Job, Status: Failure, Err: e.err})
	case begin:
		m := t.Models[of.Model]
		t.report(of.Model, m.Next, Report{Status: Failure, Err: e.err})
		m.Next, t.save = nil, true
	case Done:
		if of.Phase == Observe { // it holds, and only that is not on the disk yet
			t.add(Again{of})
			return
		}
		t.failed(Failed{of, e.err})
	}
}
