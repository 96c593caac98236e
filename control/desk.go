// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"slices"
	"sync"
	"time"
)

// key names a request for ever: an id belongs to the client that chose it.
type key struct{ client, id string }

// States of an entry.
const (
	queued = iota
	running
	ended
)

// Causes of an interruption, as context.Cause gives them.
var (
	errCanceled = errors.New("control: canceled by the client")
	errDeadline = errors.New("control: deadline passed")
	errDrained  = errors.New("control: the device is shutting down")
)

// entry is one accepted request. desk.mu guards state and what is below it.
type entry struct {
	key  key
	hash [sha256.Size]byte // of op and payload: tells a repetition from a clash

	received string   // digest of the bytes it came in as, "" where there is to be no record
	op       string   // as the topic has it
	req      *Request // nil once ended: prompts are not kept
	model    ModelRef
	box      *outbox // where the replies go
	stream   *stream
	ctx      context.Context
	cancel   context.CancelCauseFunc

	accepted time.Time
	age      time.Duration // that it had then
	small    bool          // answered by one done: not in the queue, not counted as open

	state   int
	arrival int64 // in the queue
	urgency int   // of its priority, and of having waited: lower first
	passed  int   // by how many younger ones since urgency last changed
	started time.Time
	ended   time.Time
	ahead   int         // requests that were before it
	heard   bool        // the backend gave the first piece
	dropped bool        // what fetch finds is gone
	timer   *time.Timer // of the deadline; nil: none
}

// desk admits requests: it remembers ids, bounds the queue, and sees that each
// accepted request ends exactly once.
type desk struct {
	topics      Topics
	lim         Limits
	now         func() time.Time
	gen         Generator
	box         *outbox
	concurrency int
	observe     func(Observation)
	audit       func(Audited) // nil: nobody keeps a record
	notify      func(Notice)

	wake  chan struct{} // something is queued; capacity = workers
	small chan *entry   // tokenize
	base  context.Context

	door sync.Mutex // one submit at a time: held over the look-up, Resolve and the entry

	mu       sync.Mutex
	entries  map[key]*entry
	anon     map[[sha256.Size]byte]*entry // requests without an id, for redelivered ones
	order    []*entry                     // by acceptance
	queue    []*entry                     // by turnsBefore
	arrivals int64                        // in it, so far
	open     int                          // queued and running
	running  int
	clients  map[string]int // open requests of a client
	works    map[string]int // those of them in work
	draining bool
	average  time.Duration // of a run, smoothed
	idle     []chan struct{}
}

// Observation is the end of one request, for metrics. It names no client and no id.
type Observation struct {
	Op     string // one of Ops, or "other"
	Code   string // "ok" or the name of the error code
	Finish string // of a done generation
	Model  ModelRef
	Usage  Usage
	Queue  time.Duration // acceptance to start
	TTFT   time.Duration // acceptance to first piece; 0: none came
	Total  time.Duration // acceptance to end
}

// incoming is a request as it came off the wire.
type incoming struct {
	op, client string
	payload    []byte
	dup        bool   // the broker says that it may have delivered this before
	received   string // digest of the payload, where there is to be a record
	local      bool   // it did not come over MQTT
}

// id is the id of a payload that is refused unread; "" when it has none.
func (in *incoming) id() string {
	if in.op == OpPrompt {
		return "" // the payload is text, whatever it looks like
	}
	return peekID(in.payload)
}

// submit admits or refuses one request. It waits for no generation and no network.
func (d *desk) submit(in incoming) {
	d.door.Lock()
	defer d.door.Unlock()
	if len(in.payload) > d.lim.RequestBytes {
		d.refuse(in, in.id(), Errorf(PayloadTooLarge, "the request has more than %d bytes", d.lim.RequestBytes))
		return
	}
	if d.audit != nil {
		in.received = Digest(in.payload)
	}
	r, err := DecodeRequest(in.op, in.client, in.payload)
	if err != nil {
		d.refuse(in, in.id(), asError(err))
		return
	}
	hash := sha256.Sum256(append([]byte(in.op+"\x00"+in.client+"\x00"), in.payload...))
	if again, clash := d.repeated(r, in.dup, hash); clash != nil {
		d.refuse(in, r.ID, clash)
		return
	} else if again {
		return
	}
	e := &entry{hash: hash, op: in.op, req: r, received: in.received, accepted: d.now(), box: d.box}
	e.small = r.Op == OpCancel || r.Op == OpFetch || r.Op == OpTokenize
	if refusal := d.admit(e); refusal != nil {
		d.refuse(in, r.ID, refusal)
		return
	}
	d.note(e, NoticeAccepted, Observation{})
	switch r.Op {
	case OpCancel:
		found := d.interrupt(d.find(r.Client, r.Target), errCanceled)
		d.answer(e, Done{Found: &found})
	case OpFetch:
		target := d.find(r.Client, r.Target)
		found := target != nil && target.stream.resend(r.FromSeq)
		d.answer(e, Done{Found: &found})
	case OpTokenize:
		d.small <- e // has room: admit looked, and the door is ours
	}
}

// repeated finds out whether a request was accepted before. If so it is answered
// again, or, when the id was used for another request, refused.
func (d *desk) repeated(r *Request, dup bool, hash [sha256.Size]byte) (bool, *Error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.entries[key{r.Client, r.ID}]
	if r.ID == "" && dup {
		old = d.anon[hash]
	}
	if old == nil {
		return false, nil
	}
	if old.hash != hash {
		return true, Errorf(DuplicateID, "id %q was used for another request less than %v ago", r.ID, d.lim.RememberFor)
	}
	old.stream.repeat()
	return true, nil
}

// admit enters a request under its id, or says why not.
func (d *desk) admit(e *entry) *Error {
	r := e.req
	e.age = ageOf(r, e.accepted)
	if late := expiredBy(r, e.age); late > 0 {
		return Errorf(Expired, "the request is %v past its ttl_ms", late.Round(time.Millisecond))
	}
	if r.Op != OpCancel && r.Op != OpFetch {
		m, err := d.resolve(r)
		if err != nil {
			return asError(err)
		}
		e.model = m
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if refusal := d.bounds(e); refusal != nil {
		return refusal
	}
	if r.ID == "" {
		r.ID = newID()
		d.anon[e.hash] = e
	}
	e.key = key{r.Client, r.ID}
	e.ctx, e.cancel = context.WithCancelCause(d.base)
	e.stream = e.box.newStream(d.topics.Reply(r.Client, r.ID), r.ID, r)
	d.entries[e.key] = e
	d.order = append(d.order, e)
	d.evict()
	if !e.small {
		d.enqueue(e)
	}
	return nil
}

// bounds checks whether there is room. mu is held.
func (d *desk) bounds(e *entry) *Error {
	switch n := d.clients[e.req.Client]; {
	case e.op == OpCancel || e.op == OpFetch:
		return nil // these must work when everything else is full
	case d.draining:
		return Errorf(ShuttingDown, "the device is shutting down")
	case e.small && len(d.small) == cap(d.small):
		return d.full("%d small requests wait", len(d.small))
	case e.small:
		return nil
	case d.open >= d.lim.Queue:
		return d.full("%d requests are open, the limit is %d", d.open, d.lim.Queue)
	case n >= d.lim.PerClient:
		return d.full("%d requests of this client are open, the limit is %d", n, d.lim.PerClient)
	}
	return nil
}

// full is the refusal that says when to try again: after what is open has run.
func (d *desk) full(format string, args ...any) *Error {
	e := Errorf(QueueFull, format, args...)
	run := d.average
	if run == 0 {
		run = 1500 * time.Millisecond // nothing has run yet
	}
	wait := run * time.Duration(max(d.open, 1)) / time.Duration(d.concurrency)
	e.RetryAfter = min(max(wait, 200*time.Millisecond), time.Minute)
	return e
}

// enqueue puts a request in its place in the queue and says accepted.
func (d *desk) enqueue(e *entry) {
	before := d.line(e)
	e.ahead = before
	d.open++
	d.clients[e.key.client]++
	if t := e.req.Deadline; t > 0 {
		e.timer = time.AfterFunc(t, func() { d.interrupt(e, errDeadline) })
	}
	e.stream.accept(Accepted{Queue: before, Model: e.model.String()})
	d.rouse()
}

// refuse answers a request that was not accepted: one error with seq 0, remembered
// nowhere, so that the same id may be tried again.
func (d *desk) refuse(in incoming, id string, e *Error) {
	if id == "" {
		id = noID
	}
	d.auditRefusal(in, id, e)
	r := Reply{Type: TypeError, ID: id, Err: e}
	p, err := r.Encode()
	if err != nil {
		return // strings and integers always encode
	}
	d.box.put(&message{topic: d.topics.Reply(in.client, id), payload: p, qos: 1})
	d.refused(in.op, in.client, id, e)
}

// refused books a refusal.
func (d *desk) refused(op, client, id string, e *Error) {
	if !slices.Contains(Ops, op) {
		op = "other" // a name that anybody can make up must not become a metric
	}
	seen := Observation{Op: op, Code: e.Code.Name}
	d.observe(seen)
	d.notify(Notice{Event: NoticeRefused, Client: client, ID: id, Seen: seen, Err: e})
}

func (d *desk) find(client, id string) *entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.entries[key{client, id}]
}

// interrupt ends an open request early; false when there is nothing to end. One that
// waits ends at once, one in work when the backend returns.
func (d *desk) interrupt(e *entry, cause error) bool {
	if e == nil || e.small {
		return false
	}
	d.mu.Lock()
	switch e.state {
	case running:
		d.mu.Unlock()
		e.cancel(cause)
		return true
	case queued:
		for i, q := range d.queue {
			if q == e {
				d.queue = append(d.queue[:i], d.queue[i+1:]...)
				break
			}
		}
		r := e.req
		d.finish(e)
		d.mu.Unlock()
		err := interrupted(cause)
		d.audited(e, r, Audited{Code: err.Code.Name})
		e.stream.fail(err)
		d.report(e, Observation{Code: err.Code.Name})
		return true
	}
	d.mu.Unlock()
	return false
}

// interrupted is the error for a request that ended before its first token.
func interrupted(cause error) *Error {
	switch {
	case errors.Is(cause, errDeadline):
		return Errorf(DeadlineExceeded, "deadline_ms passed before the first token")
	case errors.Is(cause, errDrained):
		return Errorf(ShuttingDown, "the device is shutting down")
	}
	return Errorf(Canceled, "canceled before the first token")
}

// finish books a request as ended. mu is held; the caller sends the terminal message,
// and is the only one to do so because the state changes once.
func (d *desk) finish(e *entry) {
	if !e.small {
		if e.state == running {
			d.running--
			if d.works[e.key.client]--; d.works[e.key.client] == 0 {
				delete(d.works, e.key.client)
			}
		}
		d.open--
		if d.clients[e.key.client]--; d.clients[e.key.client] == 0 {
			delete(d.clients, e.key.client)
		}
	}
	e.state, e.ended, e.req = ended, d.now(), nil
	if e.timer != nil {
		e.timer.Stop()
	}
	e.cancel(nil)
	if d.open == 0 {
		for _, c := range d.idle {
			close(c)
		}
		d.idle = nil
	}
}

// report hands an observation over, completed from the entry.
func (d *desk) report(e *entry, o Observation) {
	o.Op, o.Total = e.op, e.ended.Sub(e.accepted)
	if o.Model == (ModelRef{}) {
		o.Model = e.model
	}
	if !e.started.IsZero() {
		o.Queue = e.started.Sub(e.accepted)
	}
	d.observe(o)
	d.note(e, NoticeEnded, o)
}

// note tells how a request gets on.
func (d *desk) note(e *entry, event string, o Observation) {
	o.Op = e.op
	d.notify(Notice{Event: event, Client: e.key.client, ID: e.key.id, Ahead: e.ahead, Seen: o})
}

// answer ends a small operation.
func (d *desk) answer(e *entry, done Done) {
	d.mu.Lock()
	r := e.req
	d.finish(e)
	d.mu.Unlock()
	d.audited(e, r, Audited{Code: codeOK})
	e.stream.result(done)
	d.report(e, Observation{Code: codeOK})
}

// ageOf is how long ago a request that comes was sent. A clock that was never set knows
// nothing of that, nor does one that is behind the sender's. It is asked when the request
// comes and never again: from then on the time that passes counts, whatever becomes of
// the clock.
func ageOf(r *Request, now time.Time) time.Duration {
	if r.SentAt.IsZero() || !saneClock(now) {
		return 0
	}
	return max(now.Sub(r.SentAt), 0)
}

// expiredBy says how long ago the time to live of a request of this age ran out; 0: it
// has not.
func expiredBy(r *Request, age time.Duration) time.Duration {
	if r.TTL <= 0 {
		return 0
	}
	return max(age-r.TTL, 0)
}

// saneClock says whether a clock has been set: boards without a battery start in 1970
// or at the time of their image.
func saneClock(now time.Time) bool { return now.Year() >= firstSaneYear }

// firstSaneYear is one that a clock which was never set does not show.
const firstSaneYear = 2025

// newID makes an id for a request that has none.
func newID() string { return "w-" + rand.Text()[:16] }
