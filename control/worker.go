// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"runtime/debug"
	"time"
)

// work runs queued requests one after another until ctx ends.
func (d *desk) work(ctx context.Context) {
	for {
		e := d.next()
		if e == nil {
			select {
			case <-d.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		d.run(e)
	}
}

// run carries out one generation and ends it.
func (d *desk) run(e *entry) {
	r := *e.req
	r.Priority = e.urgency
	d.note(e, NoticeStarted, Observation{Queue: e.started.Sub(e.accepted)})
	res, err := d.generate(e, &r)
	cause := context.Cause(e.ctx) // nil unless it was interrupted
	said := e.stream.outcome()

	d.mu.Lock()
	d.finish(e)
	if run := e.ended.Sub(e.started); d.average == 0 {
		d.average = run
	} else {
		d.average += (run - d.average) / 4
	}
	d.mu.Unlock()

	finish := ""
	switch {
	case errors.Is(cause, errDrained):
		err = interrupted(cause)
	case cause != nil && (err != nil || res.Finish == FinishCancel || res.Finish == FinishDeadline):
		if err = interrupted(cause); !said.empty {
			err, finish = nil, FinishCancel
			if errors.Is(cause, errDeadline) {
				finish = FinishDeadline
			}
		}
	case err == nil:
		finish = res.Finish
		if finish == "" {
			finish = FinishStop
		}
	}
	if err != nil {
		failure := asError(err)
		d.audited(e, &r, Audited{Code: failure.Code.Name, Waits: true})
		e.stream.fail(failure)
		d.report(e, Observation{Code: failure.Code.Name})
		return
	}
	d.complete(e, &r, res, said, finish)
}

// complete sends the done message of a generation.
func (d *desk) complete(e *entry, r *Request, res *Result, said outcome, finish string) {
	if res == nil { // interrupted: what is known is what was sent
		res = &Result{Usage: Usage{Completion: said.tokens}}
	}
	model := res.Model
	if model.Name == "" {
		model = e.model
	}
	if r.Op == OpEmbed {
		finish = "" // nothing was said that could be longer
	}
	o := Observation{Code: codeOK, Finish: finish, Model: model, Usage: res.Usage}
	switch {
	case res.TTFT > 0:
		o.TTFT = e.started.Sub(e.accepted) + res.TTFT
	case !said.firstAt.IsZero():
		o.TTFT = said.firstAt.Sub(e.accepted)
	}
	d.audited(e, r, Audited{Code: codeOK, Finish: finish, Model: model, Usage: res.Usage, Sampling: res.Sampling, Waits: true})
	done := Done{
		Finish: finish, BadToolCall: res.BadToolCall, Usage: &res.Usage, Model: &model,
		Timing: &Timing{
			QueueMS: e.started.Sub(e.accepted).Milliseconds(), TTFTMS: o.TTFT.Milliseconds(),
			PrefillTPS: res.PrefillTPS, DecodeTPS: res.DecodeTPS,
			TotalMS: e.ended.Sub(e.accepted).Milliseconds(),
		},
	}
	if r.Op == OpEmbed {
		done.Embedding = said.vector
		e.stream.result(done)
	} else {
		e.stream.done(done, r.FinalText)
	}
	d.report(e, o)
}

// generate calls the backend; a panic in it becomes an error with an incident id, the
// stack goes to the notice.
func (d *desk) generate(e *entry, r *Request) (res *Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = d.panicked(e.key, p)
		}
	}()
	res, err = d.gen.Generate(e.ctx, r, func(ev Event) error {
		if e.ctx.Err() != nil {
			return context.Cause(e.ctx)
		}
		if !e.heard && ev.Phase == "" {
			e.heard = true
			d.note(e, NoticeFirst, Observation{TTFT: d.now().Sub(e.accepted)})
		}
		return e.stream.push(ev)
	})
	if res == nil && err == nil {
		err = Errorf(Internal, "the backend gave neither a result nor an error")
	}
	return res, err
}

func (d *desk) panicked(k key, p any) *Error {
	e := Errorf(Internal, "internal error")
	e.Incident = newID()
	d.notify(Notice{Event: NoticePanic, Client: k.client, ID: k.id, Incident: e.Incident, Panic: p, Stack: debug.Stack()})
	return e
}

// tokenize answers small requests one after another until ctx ends.
func (d *desk) tokenize(ctx context.Context) {
	for {
		select {
		case e := <-d.small:
			d.tokenizeOne(e)
		case <-ctx.Done():
			return
		}
	}
}

func (d *desk) tokenizeOne(e *entry) {
	ids, err := d.callTokenize(e)
	if err == nil {
		if ids == nil {
			ids = []int32{}
		}
		done := Done{IDs: ids}
		p, encErr := (&Reply{Type: TypeDone, ID: e.key.id, Done: &done}).Encode()
		if encErr == nil && len(p) <= maxDoneBytes {
			d.answer(e, done)
			return
		}
		err = Errorf(PayloadTooLarge, "%d ids do not fit in one message: send the text in pieces", len(ids))
	}
	failure := asError(err)
	d.mu.Lock()
	r := e.req
	d.finish(e)
	d.mu.Unlock()
	d.audited(e, r, Audited{Code: failure.Code.Name})
	e.stream.fail(failure)
	d.report(e, Observation{Code: failure.Code.Name})
}

// resolve calls the backend for the model of a request.
func (d *desk) resolve(r *Request) (m ModelRef, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = d.panicked(key{r.Client, r.ID}, p)
		}
	}()
	return d.gen.Resolve(r.Model)
}

func (d *desk) callTokenize(e *entry) (ids []int32, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = d.panicked(e.key, p)
		}
	}()
	return d.gen.Tokenize(e.ctx, e.req)
}

// evict keeps the table within its bound; open requests stay. mu is held.
func (d *desk) evict() {
	for i := 0; len(d.order) > d.lim.IDs && i < len(d.order); {
		if d.order[i].state != ended || d.order[i].local(d) {
			i++
			continue
		}
		d.remove(i)
	}
}

func (d *desk) remove(i int) {
	e := d.order[i]
	d.order = append(d.order[:i], d.order[i+1:]...)
	delete(d.entries, e.key)
	if d.anon[e.hash] == e {
		delete(d.anon, e.hash)
	}
	e.box.forget(e.stream)
}

// sweep forgets what is old or too much: first the messages that fetch would find,
// then the ids.
func (d *desk) sweep() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	held := 0
	for i := len(d.order) - 1; i >= 0; i-- { // youngest first, so that they stay
		e := d.order[i]
		if e.state != ended || e.local(d) {
			continue
		}
		age := now.Sub(e.ended)
		if age > d.lim.RememberFor || held > d.lim.RememberBytes && e.dropped {
			d.remove(i)
			continue
		}
		if !e.dropped && !e.stream.busy() && (age > d.lim.FetchFor || held > d.lim.RememberBytes) {
			e.dropped = true
			held += e.stream.dropSent()
			continue
		}
		held += e.stream.heldBytes()
	}
}

// drain refuses new requests, ends those that wait and gives those in work until ctx
// ends; then they are interrupted. It returns when none is open.
func (d *desk) drain(ctx context.Context) {
	d.mu.Lock()
	d.draining = true
	waiting := append([]*entry(nil), d.queue...)
	d.mu.Unlock()
	for _, e := range waiting {
		d.interrupt(e, errDrained)
	}
	done := make(chan struct{})
	d.mu.Lock()
	var inWork []*entry
	for _, e := range d.order {
		if e.state == running && !e.small {
			inWork = append(inWork, e)
		}
	}
	if d.open == 0 {
		close(done)
	} else {
		d.idle = append(d.idle, done)
	}
	d.mu.Unlock()
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	for _, e := range inWork {
		e.cancel(errDrained)
	}
	select {
	case <-done:
	case <-time.After(2 * time.Second): // a backend that does not listen to its context
	}
}

// load counts requests.
func (d *desk) load() (waiting, active int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.queue), d.running
}
