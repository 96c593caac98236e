// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	maxRejected = 16                     // records of refused commands kept
	progressMin = 100 * time.Millisecond // between two records of one job
	progressMax = 5 * time.Second        // the longest silence while something moves
)

// jobs takes commands, runs one at a time, and beside it those that only wait, and
// publishes their records.
type jobs struct {
	topics  Topics
	lim     Limits
	now     func() time.Time
	runner  JobRunner
	policy  atomic.Pointer[Policy]
	docs    *retained
	journal *journal
	audit   func(Audited) // nil: nobody keeps a record
	notify  func(Notice)
	wake    chan struct{} // capacity 1: something is queued

	mu       sync.Mutex
	recs     map[key]*jobEntry
	order    []*jobEntry // by submission
	queue    []*jobEntry
	busy     bool // one that works runs
	ended    map[JobEnd]uint64
	stopping bool
}

// jobEntry is a job that has a record. jobs.mu guards it.
type jobEntry struct {
	rec    JobRecord
	params []byte
	hash   string
	cancel context.CancelCauseFunc // while it runs
	shown  time.Time               // last record

	received string    // digest of params, where there is to be a record
	goes     time.Time // when the record of one that has ended does; rec has that as a time of day
}

func (e *jobEntry) key() key { return key{e.rec.Client, e.rec.ID} }

// patient is the runner, if it has jobs that wait more than they work.
func (j *jobs) patient(ask func(PatientRunner) bool) bool {
	p, ok := j.runner.(PatientRunner)
	return ok && ask(p)
}

func (j *jobs) beside(typ string) bool {
	return j.patient(func(p PatientRunner) bool { return p.Beside(typ) })
}

func (j *jobs) resumes(typ string) bool {
	return j.patient(func(p PatientRunner) bool { return p.Resumes(typ) })
}

// restore takes over what the journal has. A job that was running when the device
// went down is run again if it can be, else it ends as interrupted; one that waited
// waits again.
func (j *jobs) restore(files []jobFile) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, f := range files {
		e := &jobEntry{rec: f.Record, params: f.Params, hash: f.SHA256}
		j.recs[e.key()] = e
		j.order = append(j.order, e)
		switch {
		case e.rec.Status == JobQueued:
			j.queue = append(j.queue, e)
			j.show(e)
		case e.rec.Status == JobRunning && j.resumes(e.rec.Type):
			e.rec.Attempt, e.rec.Phase, e.rec.Progress = e.rec.Attempt+1, "", JobFraction{}
			j.queue = append(j.queue, e)
		case e.rec.Status == JobRunning:
			j.end(e, JobFailed, nil, Errorf(Interrupted, "the device stopped while the job was running"))
		default:
			if j.regain(e) {
				j.save(e)
			}
			j.show(e)
		}
	}
	j.signal()
}

// keepFor lets the record of a job that has ended go after a while.
func (j *jobs) keepFor(e *jobEntry, d time.Duration) {
	e.goes = j.now().Add(d)
	e.rec.ExpiresAt = e.goes.UTC()
}

// regain finds out how long the record of a job that ended before this start stays, and
// reports whether its document has to say something else. What is left is a time of day:
// one from a clock that was not set, that is further off than any is, or that a clock
// which is not set now is held against, says nothing, and the record stays its whole time.
// So does that of a job that ended on a full disk.
func (j *jobs) regain(e *jobEntry) bool {
	now, whole := j.now(), j.lim.JobRecordsFor
	left := e.rec.ExpiresAt.Sub(now.Round(0))
	if e.rec.ExpiresAt.IsZero() || left > whole || !saneClock(now) || !saneClock(e.rec.ExpiresAt.Add(-whole)) {
		j.keepFor(e, whole)
		return true
	}
	e.goes = now.Add(left)
	return false
}

func (j *jobs) signal() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// submit takes a command. The record says what became of it, rejected included; the
// error is DuplicateID, for which there is no record to put it in. A trusted command
// comes from this machine and is not held against the policy.
func (j *jobs) submit(client, typ, id string, params []byte, trusted bool) (JobRecord, *Error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if typ == jobCancel {
		return j.submitCancel(client, id, params, trusted)
	}
	k, hash := key{client, id}, jobHash(typ, params)
	if e := j.recs[k]; e != nil && e.rec.Status != JobRejected {
		if e.hash != hash {
			return JobRecord{}, Errorf(DuplicateID, "job %q was another command", id)
		}
		j.show(e)
		return e.rec, nil
	}
	if j.journal.seen(k) != "" {
		return JobRecord{}, Errorf(DuplicateID, "job %q has run, its record is gone", id)
	}
	e := j.fresh(client, typ, id)
	if j.audit != nil {
		e.received = Digest(params)
	}
	if refusal := j.admissible(client, typ, params, trusted); refusal != nil {
		return j.reject(e, refusal), nil
	}
	e.params, e.hash = params, hash
	err := j.store(e)
	if err == nil {
		err = j.journal.remember(k, hash)
	}
	if err != nil {
		j.discard(e)
		return j.reject(e, storageError(err)), nil
	}
	j.enter(e)
	j.queue = append(j.queue, e)
	j.show(e)
	j.signal()
	return e.rec, nil
}

// admissible checks a command in the order of the codes a caller can do something
// about.
func (j *jobs) admissible(client, typ string, params []byte, trusted bool) *Error {
	if !slices.Contains(j.runner.JobTypes(), typ) && typ != jobCancel {
		return Errorf(Unsupported, "job type %.64q is unknown", typ)
	}
	if !trusted && !j.policy.Load().Allows(client, typ) {
		return Errorf(Forbidden, "client %q may not submit %s: see [[policy]], anonymous.allow and mqtt.broker_enforces_acl", client, typ)
	}
	if _, refusal := j.decode(params); refusal != nil {
		return refusal
	}
	switch {
	case j.stopping:
		return Errorf(ShuttingDown, "the device is shutting down")
	case len(j.queue) >= j.lim.Jobs:
		e := Errorf(QueueFull, "%d jobs wait, the limit is %d", len(j.queue), j.lim.Jobs)
		e.RetryAfter = time.Minute
		return e
	}
	return nil
}

func (j *jobs) decode(params []byte) (*command, *Error) {
	if len(params) > j.lim.RequestBytes {
		return nil, Errorf(PayloadTooLarge, "the command has more than %d bytes", j.lim.RequestBytes)
	}
	var obj map[string]json.RawMessage
	c := new(command)
	err := json.Unmarshal(params, &obj)
	if err == nil && obj == nil {
		err = errors.New("null")
	}
	if err == nil {
		err = json.Unmarshal(params, c)
	}
	if err != nil {
		return nil, Errorf(BadRequest, "%s", JSONProblem(err))
	}
	if refusal := c.expired(j.now()); refusal != nil {
		return nil, refusal
	}
	return c, nil
}

// submitCancel carries out a job_cancel. The topic names the job to end, or, when the
// payload has a target, the command itself, which then has a record of its own.
func (j *jobs) submitCancel(client, id string, params []byte, trusted bool) (JobRecord, *Error) {
	own := key{client, id}
	refuse := func(refusal *Error) (JobRecord, *Error) {
		if e := j.recs[own]; e != nil && e.rec.Status != JobRejected {
			return JobRecord{}, refusal // that record belongs to a job
		}
		return j.reject(j.fresh(client, jobCancel, id), refusal), nil
	}
	c, refusal := j.decode(params)
	if refusal != nil {
		return refuse(refusal)
	}
	target := own
	if c.Target != "" {
		target.id = c.Target
	}
	if c.Client != "" {
		target.client = c.Client
	}
	if target.client != client && !trusted && !j.policy.Load().Allows(client, jobCancel) {
		return refuse(Errorf(Forbidden, "client %q may cancel its own jobs alone", client))
	}
	e := j.recs[target]
	if e == nil || e.rec.Status == JobRejected {
		return refuse(Errorf(UnknownJob, "no job %.64q of client %.64q", target.id, target.client))
	}
	if target != own && j.recs[own] != nil && j.recs[own].rec.Status != JobRejected {
		return refuse(Errorf(DuplicateID, "job %q was another command", id))
	}
	if !e.rec.Final() {
		j.interrupt(e)
	}
	if target == own {
		j.show(e)
		return e.rec, nil
	}
	cmd := j.fresh(client, jobCancel, id)
	cmd.rec.Status = JobSucceeded
	j.keepFor(cmd, j.lim.JobRecordsFor)
	j.count(cmd)
	j.enter(cmd)
	j.show(cmd)
	j.trim()
	return cmd.rec, nil
}

// interrupt ends an open job: at once when it waits, else when the runner returns.
func (j *jobs) interrupt(e *jobEntry) {
	if e.cancel != nil {
		e.cancel(errCanceled)
		return
	}
	if i := slices.Index(j.queue, e); i >= 0 {
		j.queue = slices.Delete(j.queue, i, i+1)
		j.end(e, JobCanceled, nil, Errorf(Canceled, "canceled before it began"))
	}
}

func (j *jobs) fresh(client, typ, id string) *jobEntry {
	now := j.now().UTC()
	version := 0
	if old := j.recs[key{client, id}]; old != nil {
		version = old.rec.Version // a refused id that is tried again goes on counting
	}
	return &jobEntry{rec: JobRecord{
		V: 1, ID: id, Type: typ, Client: client, Status: JobQueued, Version: version, Attempt: 1,
		Result: json.RawMessage("{}"), CreatedAt: now,
	}}
}

// enter puts an entry in the place of a rejected one of the same id, or at the end.
func (j *jobs) enter(e *jobEntry) {
	if old := j.recs[e.key()]; old != nil {
		j.order = slices.DeleteFunc(j.order, func(o *jobEntry) bool { return o == old })
	}
	j.recs[e.key()] = e
	j.order = append(j.order, e)
}

func (j *jobs) reject(e *jobEntry, refusal *Error) JobRecord {
	e.rec.Status, e.rec.Error = JobRejected, refusal
	j.keepFor(e, j.lim.JobRecordsFor)
	j.count(e)
	j.enter(e)
	j.show(e)
	j.notify(Notice{Event: NoticeJobRefused, Client: e.rec.Client, ID: e.rec.ID, Err: refusal})
	j.trim()
	return e.rec
}

// show publishes the record as it is now, as the next version.
func (j *jobs) show(e *jobEntry) {
	e.rec.Version++
	e.shown = j.now()
	e.rec.UpdatedAt = e.shown.UTC()
	p, err := encode(e.rec)
	if err != nil {
		return // result was marshalled before, the rest always encodes
	}
	j.docs.publish(j.topics.Job(e.rec.Client, e.rec.ID), p, true)
}

// store puts the job into the journal with the version that show will give it.
func (j *jobs) store(e *jobEntry) error {
	f := jobFile{Record: e.rec, Params: e.params, SHA256: e.hash}
	f.Record.Version++
	f.Record.UpdatedAt = j.now().UTC()
	return j.journal.put(f)
}

// save is store where the job goes on although it cannot be stored.
func (j *jobs) save(e *jobEntry) {
	if err := j.store(e); err != nil {
		j.notify(Notice{Event: NoticeState, ID: e.rec.ID, Err: err})
	}
}

// discard takes back what store may have written.
func (j *jobs) discard(e *jobEntry) {
	if err := j.journal.remove(e.rec.Client, e.rec.ID); err != nil {
		j.notify(Notice{Event: NoticeState, ID: e.rec.ID, Err: err})
	}
}

func (j *jobs) end(e *jobEntry, status string, result json.RawMessage, failure *Error) {
	e.rec.Status, e.rec.Error, e.cancel = status, failure, nil
	if result != nil {
		e.rec.Result = result
	}
	j.keepFor(e, j.lim.JobRecordsFor)
	j.count(e)
	e.params = []byte("{}")
	j.save(e)
	j.show(e)
	j.trim()
}

// sweep clears records that are old.
func (j *jobs) sweep() {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.now()
	for i := 0; i < len(j.order); {
		if e := j.order[i]; e.rec.Final() && now.After(e.goes) {
			j.clear(i)
			continue
		}
		i++
	}
}

// trim keeps the number of records within the bounds; refused commands go first.
func (j *jobs) trim() {
	rejected := 0
	for _, e := range j.order {
		if e.rec.Status == JobRejected {
			rejected++
		}
	}
	for i := 0; i < len(j.order) && rejected > maxRejected; {
		if j.order[i].rec.Status == JobRejected {
			j.clear(i)
			rejected--
			continue
		}
		i++
	}
	for i := 0; i < len(j.order) && len(j.order) > j.lim.KeptJobs; {
		if j.order[i].rec.Final() {
			j.clear(i)
			continue
		}
		i++
	}
}

func (j *jobs) clear(i int) {
	e := j.order[i]
	j.order = slices.Delete(j.order, i, i+1)
	delete(j.recs, e.key())
	j.discard(e)
	j.docs.clear(j.topics.Job(e.rec.Client, e.rec.ID))
}

// stop refuses new jobs, ends those that run and leaves those that wait, or can be run
// again, to the next start.
func (j *jobs) stop() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stopping = true
	for _, e := range j.order {
		if e.cancel != nil {
			e.cancel(errDrained)
		}
	}
}

// list returns all records, oldest first.
func (j *jobs) list() []JobRecord {
	j.mu.Lock()
	defer j.mu.Unlock()
	recs := make([]JobRecord, len(j.order))
	for i, e := range j.order {
		recs[i] = e.rec
	}
	return recs
}

// storageError is what a client is told when the journal cannot be written.
func storageError(err error) *Error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return Errorf(InsufficientStore, "the job could not be stored: %v", err)
	}
	return Errorf(Internal, "the job could not be stored: %v: see what the kernel says of the storage (dmesg)", err)
}
