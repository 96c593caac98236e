// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"time"
)

// Ask carries out a generation for a caller in this process, an HTTP handler say, as
// if it had come over MQTT: through the same checks, queue, limits, turns of the
// clients and accounts. r is one that NewRequest made and the caller filled in; its
// Client names whose turn it is, its ID is chosen here. reply is given each reply in
// order, on the caller's goroutine; a slow reply costs nobody else anything. Ask
// returns after the terminal one: nil after done, the *Error of a refusal or of a
// request that failed, else what reply returned, or the cause of ctx. The request is
// cancelled when ctx ends or reply returns an error.
//
// Nothing of the request is remembered once Ask has returned: fetch and cancel over
// MQTT do not find it.
func (s *Server) Ask(ctx context.Context, r *Request, reply func(*Reply) error) error {
	return s.desk.ask(ctx, r, reply)
}

func (d *desk) ask(ctx context.Context, r *Request, reply func(*Reply) error) error {
	if r.Op != OpGenerate && r.Op != OpChat && r.Op != OpEmbed {
		return Errorf(Unsupported, "operation %.64q cannot be asked for here", r.Op)
	}
	box := newOutbox(d.now)
	gen := box.attach()
	e, refusal := d.submitLocal(r, box)
	if refusal != nil {
		d.auditRefusal(incoming{op: r.Op, client: r.Client, received: r.Received, local: true}, r.ID, refusal)
		d.refused(r.Op, r.Client, r.ID, refusal)
		return refusal
	}
	defer d.leave(e)
	stop := context.AfterFunc(ctx, func() { d.interrupt(e, errCanceled) })
	defer stop()
	var failed error
	for {
		m, wait := box.take(gen)
		if m == nil {
			pause(box.wake, wait)
			continue
		}
		box.ack(gen, m)
		answer, err := DecodeReply(m.payload)
		if err != nil { // what this package encoded
			panic("control: internal error: " + err.Error())
		}
		if failed == nil {
			if failed = context.Cause(ctx); failed == nil {
				failed = reply(answer)
			}
			if failed != nil {
				d.interrupt(e, errCanceled)
			}
		}
		switch {
		case !answer.Terminal():
		case failed != nil:
			return failed
		case answer.Err != nil:
			return answer.Err
		default:
			return nil
		}
	}
}

// submitLocal admits a request whose replies go to a box of its own.
func (d *desk) submitLocal(r *Request, box *outbox) (*entry, *Error) {
	if err := r.check(&wireRequest{Prompt: &r.Prompt}); err != nil {
		return nil, asError(err)
	}
	d.door.Lock()
	defer d.door.Unlock()
	r.ID = newID()
	e := &entry{op: r.Op, req: r, received: r.Received, accepted: d.now(), box: box}
	if refusal := d.admit(e); refusal != nil {
		return nil, refusal
	}
	d.note(e, NoticeAccepted, Observation{})
	return e, nil
}

// local says whether the entry is one of ask, which forgets it itself: until then its
// stream may still have something to say to a slow caller.
func (e *entry) local(d *desk) bool { return e.box != d.box }

// leave forgets an entry that has ended, before its time.
func (d *desk) leave(e *entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, o := range d.order {
		if o == e {
			d.remove(i)
			return
		}
	}
}

// pause waits for a signal, or for as long as nothing becomes due by itself (0: for ever).
func pause(wake <-chan struct{}, wait time.Duration) {
	if wait <= 0 {
		<-wake
		return
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-wake:
	case <-t.C:
	}
}
