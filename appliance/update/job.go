// SPDX-License-Identifier: Apache-2.0

package update

import (
	"context"
	"encoding/json"
	"strings"

	"windhover/appliance/rollout"
	"windhover/control"
	"windhover/control/ota"
)

// JobTypes are the commands of this package.
var JobTypes = []string{"model_install", "model_activate", "model_remove", "model_rollback"}

// waiter is a command that waits for the end of what it asked for.
type waiter struct {
	job    string // of a report
	model  string
	sum    ota.Digest // of the version; zero: the reports of the job count
	report func(control.JobProgress)
	end    chan rollout.Report // capacity 1
}

// hear takes a report. The mutex of the Updater is held.
func (w *waiter) hear(r rollout.Report) {
	mine := r.Model == w.model && (w.sum != ota.Digest{} && r.Version.SHA256 == w.sum || w.sum == ota.Digest{} && r.Job == w.job)
	switch {
	case !mine || r.Status == rollout.Queued:
	case r.Status == rollout.Running:
		if w.report != nil {
			w.report(control.JobProgress{Phase: string(r.Phase)})
		}
	default:
		select {
		case w.end <- r:
		default: // it has one
		}
	}
}

func (u *Updater) enlist(w *waiter) (leave func()) {
	w.end = make(chan rollout.Report, 1)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.waiters[w] = true
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.waiters, w)
	}
}

// Result is what the record of a job says beside its status.
type Result struct {
	Model      string `json:"model"`
	Version    string `json:"version,omitempty"`
	Release    int64  `json:"release,omitempty"`
	SHA256     string `json:"sha256,omitempty"`
	RolledBack bool   `json:"rolled_back,omitempty"`
}

// jobOf names a job for the machine, whose reports name it again.
func jobOf(j control.Job) string { return j.Client + "/" + j.ID }

func jobID(job string) string {
	_, id, _ := strings.Cut(job, "/")
	return id
}

// RunJob carries out a command of JobTypes.
func (u *Updater) RunJob(ctx context.Context, j control.Job, report func(control.JobProgress)) (any, error) {
	switch j.Type {
	case "model_install":
		return u.install(ctx, j, report)
	case "model_activate":
		m, version, err := modelOf(j)
		if err != nil {
			return nil, err
		}
		return u.activate(ctx, j, m, version)
	case "model_remove":
		m, _, err := modelOf(j)
		if err != nil {
			return nil, err
		}
		e := rollout.Remove{Model: m, Job: jobOf(j)}
		u.mu.Lock()
		if w := u.wishes[m]; w != nil {
			e.Wanted, e.Rev = &rollout.Version{Version: w.model.Version, Release: w.model.Release, SHA256: w.model.SHA256}, w.rev
		}
		u.mu.Unlock()
		return u.order(ctx, j, m, e)
	case "model_rollback":
		m, _, err := modelOf(j)
		if err != nil {
			return nil, err
		}
		return u.order(ctx, j, m, rollout.Rollback{Model: m, Job: jobOf(j)})
	}
	return nil, control.Errorf(control.Unsupported, "job type %q", j.Type)
}

// modelOf is the model that a command names, and the version if it names one.
func modelOf(j control.Job) (model, version string, err error) {
	var p struct {
		Model   string `json:"model"`
		Version string `json:"version"`
	}
	if err := json.Unmarshal(j.Params, &p); err != nil {
		return "", "", control.Errorf(control.BadRequest, "%s: %s", j.Type, control.JSONProblem(err))
	}
	if p.Model == "" {
		return "", "", control.Errorf(control.BadRequest, "%s: model is needed: its name", j.Type)
	}
	return p.Model, p.Version, nil
}

// activate makes a model the default one, in a version that is installed; "" for the one
// that serves. What is newer than that is taken back, as by model_rollback.
func (u *Updater) activate(ctx context.Context, j control.Job, model, version string) (any, error) {
	var res any = Result{Model: model}
	s := u.machine.State().Models[model]
	switch {
	case version == "":
	case s == nil || s.Current == nil:
		return nil, control.Errorf(control.UnknownModel, "model %q did not come by an update: a version of it cannot be chosen", model)
	case s.Current.Version != version:
		var err error
		if res, err = u.order(ctx, j, model, rollout.Rollback{Model: model, Job: jobOf(j), To: version}); err != nil {
			return res, err
		}
	}
	return res, u.cfg.Device.Default(model)
}

// order tells the machine something that takes no longer than loading a version.
func (u *Updater) order(ctx context.Context, j control.Job, model string, e rollout.Event) (any, error) {
	w := &waiter{job: jobOf(j), model: model}
	defer u.enlist(w)()
	if !u.send(ctx, e) {
		return u.stopped(ctx)
	}
	select {
	case r := <-w.end:
		return result(r)
	case <-ctx.Done():
		return nil, errStopped
	case <-u.done:
		return u.stopped(ctx)
	}
}

// stopped waits for the context of a job, which ends soon after Run has: only then does
// who ran the job know that it is the device that stops, and not the job that failed.
func (u *Updater) stopped(ctx context.Context) (any, error) {
	<-ctx.Done()
	return nil, errStopped
}

// errStopped is what a command hears that was given too late.
var errStopped = control.Errorf(control.ShuttingDown, "the device is shutting down")

// result is the end of an update as that of a job.
func result(r rollout.Report) (any, error) {
	res := Result{Model: r.Model, Version: r.Version.Version, Release: r.Version.Release, RolledBack: r.RolledBack}
	if r.Version.SHA256 != (ota.Digest{}) {
		res.SHA256 = r.Version.SHA256.String()
	}
	if r.Err != nil {
		return res, r.Err
	}
	return res, nil
}

// installParams is what model_install takes. The record says what is to be installed;
// nothing that it does not say can be.
type installParams struct {
	Record   *ota.Envelope `json:"record"`
	URLs     []string      `json:"urls"`
	IndexURL string        `json:"index_url"` // the first of urls with .index behind it
	Keep     int           `json:"keep"`      // 2
	Window   string        `json:"window"`
	MaxBPS   int64         `json:"max_bps"`
	MaxBytes int64         `json:"max_bytes"`
	Health   ota.Health    `json:"health"`
	Again    bool          `json:"again"` // although it was refused before
}

// install has a signed release installed.
func (u *Updater) install(ctx context.Context, j control.Job, report func(control.JobProgress)) (any, error) {
	p := installParams{Keep: 2, Health: ota.Health{MinTPSRatio: 0.7, ObserveS: 300, MaxErrorRatio: 0.05}}
	if err := json.Unmarshal(j.Params, &p); err != nil {
		return nil, control.Errorf(control.BadRequest, "model_install: %s", control.JSONProblem(err))
	}
	if p.IndexURL == "" && len(p.URLs) > 0 {
		p.IndexURL = p.URLs[0] + ".index"
	}
	report(control.JobProgress{Phase: "checking"})
	m, _, err := u.cfg.Judge().Install(p.Record, p.URLs, p.IndexURL, u.machine.State().Memory)
	if err != nil {
		return nil, err
	}
	pl := &plan{Model: *m, Rollout: ota.Rollout{Percent: 100, Window: p.Window, MaxBPS: p.MaxBPS, MaxBytes: p.MaxBytes}, Health: p.Health}
	if err := ota.CheckPlan(pl.Rollout, pl.Health, p.Keep); err != nil {
		return nil, control.Errorf(control.BadRequest, "model_install: %s", control.JSONProblem(err))
	}
	if err := u.cfg.Device.Claim(m.Name); err != nil {
		return nil, err
	}
	u.mu.Lock()
	u.asking[m.SHA256]++
	u.mu.Unlock()
	err = u.prepare(pl)
	w := &waiter{job: jobOf(j), model: m.Name, sum: m.SHA256, report: report}
	defer u.enlist(w)()
	if err == nil && p.Again {
		u.send(ctx, rollout.Forgive{Model: m.Name, SHA256: m.SHA256})
	}
	sent := err == nil && u.send(ctx, rollout.Want{Model: m.Name, Update: rollout.Update{
		Version: rollout.Version{Version: m.Version, Release: m.Release, SHA256: m.SHA256}, Job: jobOf(j), Keep: p.Keep}})
	if sent {
		u.send(ctx, rollout.Look{})
	}
	u.asked(m.SHA256)
	if err != nil {
		return nil, err
	}
	if !sent {
		return u.stopped(ctx)
	}
	select {
	case r := <-w.end:
		return result(r)
	case <-ctx.Done():
	case <-u.done:
		<-ctx.Done()
	}
	if !control.CanceledByClient(ctx) {
		return nil, errStopped // the next start goes on with it
	}
	select {
	case u.events <- rollout.Cancel{Model: m.Name}:
	case r := <-w.end:
		return result(r)
	case <-u.done:
	}
	select {
	case r := <-w.end:
		return result(r)
	case <-u.done:
		return nil, errStopped
	}
}
