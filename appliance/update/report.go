// SPDX-License-Identifier: Apache-2.0

package update

import (
	"encoding/json"
	"maps"
	"slices"

	"windhover/appliance/rollout"
	"windhover/control"
)

// Report takes what the machine says: for those who wait, for the fleet, for a log.
func (b box) Report(r rollout.Report) {
	b.mu.Lock()
	if w := b.wishes[r.Model]; w != nil && w.model.SHA256 == r.Version.SHA256 {
		w.heard(r, b.cfg.Retry)
	}
	for w := range b.waiters {
		w.hear(r)
	}
	if r.Status != rollout.Running {
		delete(b.trials, r.Version.SHA256)
		delete(b.moved, r.Version.SHA256)
	}
	b.mu.Unlock()
	b.cfg.Told(r)
	b.occur(r)
	b.ponder()
}

// occur tells of ends.
func (u *Updater) occur(r rollout.Report) {
	o := control.Occurrence{Model: r.Model, Job: jobID(r.Job)}
	if r.Err != nil {
		o.Code, o.Message = r.Err.Code.Name, r.Err.Message
	}
	switch {
	case r.Status == rollout.Succeeded && !r.RolledBack:
		o.Event, o.Message = "model_ready", "version "+r.Version.Version+", wanted by the fleet"
		if r.Job != "" {
			o.Message = "version " + r.Version.Version
		}
	case r.RolledBack && r.Status != rollout.Rejected: // then it was told
		o.Event = "rolled_back"
		if o.Message == "" {
			o.Message = "version " + r.Version.Version + " serves again"
		}
	case r.Status == rollout.Failure:
		o.Event = "model_failed"
	default:
		return
	}
	u.cfg.Event(o)
}

// tell reports to the fleet, if there is news.
func (u *Updater) tell() {
	r := u.reported()
	now, err := json.Marshal(r)
	if err != nil || string(now) == string(u.told) {
		return // err: strings and numbers always encode
	}
	u.told = now
	u.cfg.Report(r)
}

// reported is how far the device is.
func (u *Updater) reported() control.Reported {
	j := u.cfg.Judge()
	r := control.Reported{Groups: j.Device.Groups, Status: control.DesiredCurrent}
	for _, target := range slices.Sorted(maps.Keys(u.docs)) {
		if d := u.docs[target]; d.failure != nil {
			r.Target, r.Rev, r.Status, r.Error = target, d.rev, control.DesiredFailed, d.failure
			return r
		}
	}
	if u.wanted == nil {
		return r
	}
	a := u.wanted
	r.Target, r.Rev, r.Bucket = a.Desired.Target.String(), a.Desired.Rev, a.Bucket
	if a.Held {
		r.Status = control.DesiredHeld
		return r
	}
	state := u.machine.State()
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(u.wishes)) {
		w := u.wishes[name]
		m := w.reported()
		if f, ok := u.moved[w.model.SHA256]; ok && m.Phase == string(rollout.Download) {
			m.Progress = &f
		}
		if s := state.Models[name]; s != nil && s.Current != nil {
			m.Serves = s.Current.Version
		}
		r.Models = append(r.Models, m)
	}
	r.Status = summary(r.Models)
	return r
}

// reported is one wish.
func (w *wish) reported() control.ReportedModel {
	m := control.ReportedModel{
		Name: w.model.Name, Version: w.model.Version, Release: w.model.Release, SHA256: w.model.SHA256.String(),
		Status: string(w.last.Status), Error: w.last.Err, RolledBack: w.last.RolledBack,
	}
	switch {
	case w.last.Status == "" || !w.due.IsZero(): // it is tried again
		m.Status = string(rollout.Queued)
	case w.last.Status == rollout.Running:
		m.Phase = string(w.last.Phase)
	}
	return m
}

// summary is the state of a document by those of its models: what is under way first,
// then what went wrong.
func summary(models []control.ReportedModel) string {
	has := func(s ...rollout.Status) bool {
		return slices.ContainsFunc(models, func(m control.ReportedModel) bool { return slices.Contains(s, rollout.Status(m.Status)) })
	}
	switch {
	case has(rollout.Running):
		return control.DesiredRunning
	case has(rollout.Failure, rollout.Rejected, rollout.Canceled):
		return control.DesiredFailed
	case has(rollout.Queued):
		return control.DesiredQueued
	}
	return control.DesiredCurrent
}
