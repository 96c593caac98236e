// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"encoding/json"
	"errors"
	"runtime/debug"
	"slices"
	"sync"
)

// work runs jobs until ctx ends, and returns when the last one has.
func (j *jobs) work(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		e, jctx := j.next(ctx)
		if e == nil {
			select {
			case <-j.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		running.Go(func() { j.run(jctx, e) })
	}
}

// next takes the first job that may begin out of the queue.
func (j *jobs) next(ctx context.Context) (*jobEntry, context.Context) {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := slices.IndexFunc(j.queue, func(e *jobEntry) bool { return !j.busy || j.beside(e.rec.Type) })
	if at < 0 || j.stopping {
		return nil, nil
	}
	e := j.queue[at]
	j.queue = slices.Delete(j.queue, at, at+1)
	if !j.beside(e.rec.Type) {
		j.busy = true
	}
	jctx, cancel := context.WithCancelCause(ctx)
	e.cancel = cancel
	e.rec.Status = JobRunning
	j.save(e)
	j.show(e)
	return e, jctx
}

func (j *jobs) run(ctx context.Context, e *jobEntry) {
	j.mu.Lock()
	job := Job{ID: e.rec.ID, Client: e.rec.Client, Type: e.rec.Type, Params: e.params}
	cancel := e.cancel
	j.mu.Unlock()
	result, err := j.call(ctx, job, func(p JobProgress) { j.progress(e, p) })
	cause := context.Cause(ctx)
	cancel(nil)
	raw, err := resultOf(result, err)
	j.mu.Lock()
	defer j.mu.Unlock()
	defer j.signal()
	if !j.beside(job.Type) {
		j.busy = false
	}
	switch {
	case err == nil:
		if f := e.rec.Progress; f.Total > 0 {
			e.rec.Progress = JobFraction{f.Total, f.Total, 100}
		}
		j.end(e, JobSucceeded, raw, nil)
	case errors.Is(cause, errCanceled):
		j.end(e, JobCanceled, raw, Errorf(Canceled, "canceled by the client"))
	case cause != nil && j.resumes(job.Type):
		e.cancel = nil // it stays running, for the next start
	case cause != nil:
		j.end(e, JobFailed, raw, Errorf(Interrupted, "the device was shut down while the job was running"))
	default:
		j.end(e, JobFailed, raw, asError(err))
	}
}

// resultOf marshals the result of a job, which may be there beside an error.
func resultOf(result any, err error) (json.RawMessage, error) {
	if result == nil {
		return nil, err
	}
	raw, bad := encode(result)
	if bad == nil && len(raw) > maxDoneBytes {
		bad = Errorf(Internal, "the result has %d bytes", len(raw))
	}
	if bad != nil {
		return nil, errors.Join(err, bad)
	}
	return raw, err
}

func (j *jobs) call(ctx context.Context, job Job, report func(JobProgress)) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			e := Errorf(Internal, "internal error")
			e.Incident = newID()
			j.notify(Notice{Event: NoticePanic, Client: job.Client, ID: job.ID, Incident: e.Incident, Panic: p, Stack: debug.Stack()})
			result, err = nil, e
		}
	}()
	return j.runner.RunJob(ctx, job, report)
}

// progress publishes how far a job is: at each percent or phase, else every 5 s.
func (j *jobs) progress(e *jobEntry, p JobProgress) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e.cancel == nil {
		return // it has ended
	}
	f := JobFraction{Done: p.Done, Total: p.Total}
	if p.Total > 0 {
		f.Pct = int(min(max(float64(p.Done)/float64(p.Total)*100, 0), 100))
	}
	since := j.now().Sub(e.shown)
	phase := p.Phase != "" && p.Phase != e.rec.Phase
	show := phase || f.Pct != e.rec.Progress.Pct && since >= progressMin || since >= progressMax
	if !show {
		return
	}
	if phase {
		e.rec.Phase = p.Phase
	}
	e.rec.Progress = f
	j.save(e) // the version must not go back over a restart
	j.show(e)
}

// CanceledByClient says whether the context of a job has ended because somebody wanted
// the job to, and not because the device stops.
func CanceledByClient(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errCanceled) }

// NewID makes an id that no other request or job has.
func NewID() string { return newID() }
