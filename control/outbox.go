// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"sync"
	"time"
)

const (
	streamWindow = 16   // unacknowledged QoS 1 messages of one stream
	flightWindow = 64   // of one connection
	maxControl   = 4096 // messages in the control lane without a key
	maxLosses    = 3    // connections a message may be lost with before it is dropped

	// echoAfter is when a retained document is sent once more. The embedded broker
	// stores one a moment after it has passed it on, and who subscribes in between
	// gets neither.
	echoAfter = time.Second
)

// message is one publish.
type message struct {
	topic   string
	payload []byte
	qos     byte
	retain  bool
	key     bool   // a later message of the same topic replaces this one while it waits
	keep    bool   // … unless that has no keep: then both are said, in order
	acked   func() // called once the broker has it; may be nil

	stream *stream // whose window it counts in; nil: none
	losses int
}

// outbox orders what goes out over one connection after another. Three lanes, tried
// in this order: control (state documents, refusals, accepted), terminal (streams
// that have ended: what is left of their text, then the terminal message) and delta
// (streams whose text is due). A stream never overtakes itself.
//
// A message takes its seq when it leaves the box, and text that waits is merged, so
// a slow or absent link costs latency and not memory. What was in flight when a
// connection was lost goes out first on the next one, in the same order; a message
// that was lost with maxLosses connections is dropped, because it may be what kills
// them. That is why the MQTT library's own store and reconnecting are not used: they
// resend beside new messages, in any order.
type outbox struct {
	now  func() time.Time
	wake chan struct{} // capacity 1: something may be ready

	mu      sync.Mutex // guards what follows and every stream of the box
	gen     uint64     // connection number; 0 while there is none
	lastGen uint64
	resend  []*message
	control []*message
	keyed   map[string]*message // waiting in control, by topic: the last with a key
	echoes  map[string]repeat   // retained documents to say again, by topic
	active  []*stream           // with something to send, in round-robin order
	flight  []*message          // handed over, not acknowledged, in order
	idle    []chan struct{}     // closed when nothing is left
	full    uint64              // dropped because too many wait
	broken  uint64              // dropped with the connections that they were on
}

type repeat struct {
	m   *message
	due time.Time
}

func newOutbox(now func() time.Time) *outbox {
	return &outbox{now: now, wake: make(chan struct{}, 1), keyed: map[string]*message{}, echoes: map[string]repeat{}}
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// put queues a message in the control lane; it never blocks. A message without a key
// is dropped when the lane is full.
func (o *outbox) put(m *message) {
	o.mu.Lock()
	o.putLocked(m)
	o.mu.Unlock()
	o.signal()
}

func (o *outbox) putLocked(m *message) {
	if m.key {
		if m.retain {
			again := &message{topic: m.topic, payload: m.payload, qos: m.qos, retain: true}
			o.echoes[m.topic] = repeat{again, o.now().Add(echoAfter)}
		}
		if old := o.keyed[m.topic]; old != nil && (m.keep || !old.keep) {
			*old = *m
			return
		}
		o.keyed[m.topic] = m
	} else if len(o.control) >= maxControl {
		o.full++
		return
	}
	o.control = append(o.control, m)
}

// attach says that a connection is up and returns its number for take, ack, detach.
func (o *outbox) attach() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lastGen++
	o.gen = o.lastGen
	o.signal()
	return o.gen
}

// detach says that the connection gen is gone.
func (o *outbox) detach(gen uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gen != gen {
		return
	}
	o.gen = 0
	var again []*message
	for _, m := range o.flight {
		if m.losses++; m.losses < maxLosses {
			again = append(again, m)
			continue
		}
		o.broken++
		o.release(m)
	}
	o.resend = append(again, o.resend...)
	o.flight = nil
	o.checkIdle()
}

// take returns the next message for connection gen, or nil and how long nothing can
// become due by itself (0: until the next signal).
func (o *outbox) take(gen uint64) (*message, time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if gen != o.gen || len(o.flight) >= flightWindow {
		return nil, 0
	}
	m, wait := o.pick()
	if m == nil {
		o.checkIdle()
		return nil, wait
	}
	if m.qos > 0 {
		o.flight = append(o.flight, m)
	}
	return m, 0
}

func (o *outbox) pick() (*message, time.Duration) {
	if len(o.resend) > 0 {
		m := o.resend[0]
		o.resend = o.resend[1:]
		return m, 0
	}
	if len(o.control) > 0 {
		m := o.control[0]
		o.control[0] = nil
		o.control = o.control[1:]
		if o.keyed[m.topic] == m {
			delete(o.keyed, m.topic)
		}
		return m, 0
	}
	m, wait := o.pickEcho()
	if m != nil {
		return m, 0
	}
	m, due := o.pickStream()
	if wait == 0 || due > 0 && due < wait {
		wait = due
	}
	return m, wait
}

// pickEcho returns a document that is to be said again, or when one will be.
func (o *outbox) pickEcho() (*message, time.Duration) {
	now, wait := o.now(), time.Duration(0)
	for topic, e := range o.echoes {
		due := e.due.Sub(now)
		if due <= 0 {
			delete(o.echoes, topic)
			return e.m, 0
		}
		if wait == 0 || due < wait {
			wait = due
		}
	}
	return nil, wait
}

// pickStream serves the best lane that any stream is in, streams of one lane in turn.
func (o *outbox) pickStream() (*message, time.Duration) {
	now := o.now()
	best, lane, wait := -1, laneNone, time.Duration(0)
	for i, s := range o.active {
		if s.inflight >= streamWindow {
			continue // an acknowledgement will signal
		}
		l, due := s.lane(now)
		if l < lane {
			best, lane = i, l
		}
		if l == laneNone && due > 0 && (wait == 0 || due < wait) {
			wait = due
		}
	}
	if best < 0 {
		return nil, wait
	}
	s := o.active[best]
	m := s.produce()
	copy(o.active[best:], o.active[best+1:])
	if s.pending() {
		o.active[len(o.active)-1] = s
	} else {
		o.active[len(o.active)-1] = nil
		o.active = o.active[:len(o.active)-1]
		s.active = false
	}
	return m, 0
}

// activate puts a stream among those with something to send.
func (o *outbox) activate(s *stream) {
	if !s.active && s.pending() {
		s.active = true
		o.active = append(o.active, s)
	}
}

// forget takes a stream out, whatever it still has to say.
func (o *outbox) forget(s *stream) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, a := range o.active {
		if a == s {
			o.active = append(o.active[:i], o.active[i+1:]...)
			break
		}
	}
	s.active, s.over, s.ready, s.segs, s.end = false, true, nil, nil, nil
	o.checkIdle()
}

// ack says that the broker of connection gen has m.
func (o *outbox) ack(gen uint64, m *message) {
	o.mu.Lock()
	if gen != o.gen {
		o.mu.Unlock()
		return // it was in flight when the connection went and goes out again
	}
	for i, f := range o.flight {
		if f == m {
			o.flight = append(o.flight[:i], o.flight[i+1:]...)
			o.release(m)
			break
		}
	}
	o.checkIdle()
	o.mu.Unlock()
	o.signal()
	if m.acked != nil {
		m.acked()
	}
}

func (o *outbox) release(m *message) {
	if m.stream != nil {
		m.stream.inflight--
	}
}

// flush returns when everything is out and acknowledged, when ctx ends, or at once
// when there is no connection. It is false if the broker may still lack something
// that the connection there is could bring it.
func (o *outbox) flush(ctx context.Context) bool {
	done := make(chan struct{})
	o.mu.Lock()
	o.idle = append(o.idle, done)
	o.checkIdle()
	o.mu.Unlock()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

func (o *outbox) checkIdle() {
	busy := len(o.resend)+len(o.control)+len(o.active)+len(o.flight) > 0
	if busy && o.gen != 0 {
		return
	}
	for _, c := range o.idle {
		close(c)
	}
	o.idle = nil
}

// depth counts what waits in each lane.
func (o *outbox) depth() (control, terminal, delta int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	control = len(o.control) + len(o.resend)
	for _, s := range o.active {
		switch {
		case len(s.ready) > 0:
			control++
		case s.end != nil:
			terminal++
		default:
			delta++
		}
	}
	return control, terminal, delta
}

// lost counts messages that were dropped, because too many waited and with the
// connections that they were on.
func (o *outbox) lost() (full, broken uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.full, o.broken
}
