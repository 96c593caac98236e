// SPDX-License-Identifier: Apache-2.0

package control

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"slices"
	"time"
)

const (
	batchTokens   = 16                     // a delta goes out at this many tokens, or after flush_ms
	callRoom      = 768                    // of that, for id and name of a call of a tool
	deltaRoom     = maxDeltaBytes - 256    // for the text; the rest is id, seq and names
	progressEvery = 250 * time.Millisecond // between two progress messages
)

// Lanes of the outbox, best first.
const (
	laneControl = iota
	laneTerminal
	laneDelta
	laneNone
)

var errStreamOver = errors.New("control: the request has ended")

// stream is the replies of one request id: it numbers them, batches the text,
// remembers what was sent and ends once. box.mu guards every field that changes.
type stream struct {
	box    *outbox
	topic  string
	id     string
	qos    byte // of progress and deltas; accepted and the terminal message have 1
	flush  time.Duration
	deltas bool // false: the answer goes out in the terminal message alone

	active   bool
	inflight int
	seq      int // of the next reply

	ready  []*Reply // accepted, progress
	segs   []segment
	waits  int // tokens in segs
	carry  int // tokens that gave no text yet
	due    time.Time
	end    *Reply // terminal, not sent yet
	over   bool   // a terminal was given
	lastPr time.Time

	text, thinking tail
	calls          []ToolCall
	single         []float32 // the vector of a text that is not in a list
	vectors        hash.Hash // of all vectors; nil: there was none
	listed         bool      // vectors go out one by one
	tokens         int
	firstAt        time.Time // of the first piece

	sent      []sentReply // what fetch finds, ascending seq
	sentBytes int
	final     []byte // the terminal message as sent
	first     []byte // accepted as sent
}

// segment is text of one kind that waits to be sent, a call of a tool, logprobs or a
// vector.
type segment struct {
	vector   *Vector
	thinking bool
	call     *ToolCall // buf has its arguments
	logs     []TokenLogprob
	buf      []byte
	n        int
}

type sentReply struct {
	seq     int
	payload []byte
}

func (o *outbox) newStream(topic, id string, r *Request) *stream {
	return &stream{box: o, topic: topic, id: id, qos: r.StreamQoS, flush: r.Flush, deltas: r.Stream, listed: r.Texts != nil}
}

// accept queues the accepted message.
func (s *stream) accept(a Accepted) {
	s.do(func() {
		s.ready = append(s.ready, &Reply{Type: TypeAccepted, ID: s.id, Accepted: &a})
	})
}

// push takes a step of the generation. It returns an error once the stream is over.
func (s *stream) push(ev Event) error {
	if ev.Vector != nil {
		if err := ev.Vector.fits(); err != nil {
			return err
		}
	}
	s.box.mu.Lock()
	if s.over {
		s.box.mu.Unlock()
		return errStreamOver
	}
	now := s.box.now()
	if ev.Phase != "" {
		s.progress(now, ev)
	} else {
		if s.firstAt.IsZero() {
			s.firstAt = now
		}
		if ev.Vector != nil {
			s.addVector(now, ev.Vector)
		}
		s.tokens += ev.Tokens
		n := s.carry + ev.Tokens
		if thought := s.thinking.push(ev.Thinking); thought != "" {
			s.add(now, true, thought, n)
			n = 0
		}
		if text := s.text.push(ev.Text); text != "" {
			s.add(now, false, text, n)
			n = 0
		}
		for _, call := range ev.ToolCalls {
			s.calls = append(s.calls, call)
			s.addCall(now, call, n)
			n = 0
		}
		s.addLogprobs(now, ev.Logprobs)
		s.carry = n
	}
	s.box.activate(s)
	s.box.mu.Unlock()
	s.box.signal()
	return nil
}

func (s *stream) progress(now time.Time, ev Event) {
	early := now.Sub(s.lastPr) < progressEvery && ev.Done < ev.Total
	if !s.deltas || !s.firstAt.IsZero() || early {
		return
	}
	s.lastPr = now
	p := &Reply{Type: TypeProgress, ID: s.id, Progress: &Progress{Phase: ev.Phase, Done: ev.Done, Total: ev.Total}}
	if n := len(s.ready); n > 0 && s.ready[n-1].Type == TypeProgress {
		s.ready[n-1] = p
		return
	}
	s.ready = append(s.ready, p)
}

// add queues whole characters for the next delta.
func (s *stream) add(now time.Time, thinking bool, text string, n int) {
	if !s.deltas || text == "" {
		return
	}
	if len(s.segs) == 0 {
		s.due = now.Add(s.flush)
	}
	last := len(s.segs) - 1
	if last > 0 && s.segs[last].logs != nil {
		last-- // text goes on before the logprobs that wait
	}
	if last >= 0 && s.segs[last].isText(thinking) {
		s.segs[last].buf = append(s.segs[last].buf, text...)
		s.segs[last].n += n
	} else {
		s.segs = append(s.segs, segment{thinking: thinking, buf: []byte(text), n: n})
	}
	if s.waits += n; s.waits >= batchTokens {
		s.due = now
	}
}

func (g *segment) isText(thinking bool) bool {
	return g.vector == nil && g.call == nil && g.logs == nil && g.thinking == thinking
}

// addCall queues a call of a tool; it does not wait.
func (s *stream) addCall(now time.Time, call ToolCall, n int) {
	if !s.deltas {
		return
	}
	s.segs = append(s.segs, segment{call: &call, buf: []byte(call.Arguments), n: n})
	s.waits += n
	s.due = now
}

// addLogprobs queues logprobs. They go out in deltas alone, whatever else does.
func (s *stream) addLogprobs(now time.Time, logs []TokenLogprob) {
	if len(logs) == 0 {
		return
	}
	if len(s.segs) == 0 {
		s.due = now.Add(s.flush)
	}
	if last := len(s.segs) - 1; last >= 0 && s.segs[last].logs != nil {
		s.segs[last].logs = append(s.segs[last].logs, logs...)
		return
	}
	s.segs = append(s.segs, segment{logs: slices.Clone(logs)})
}

// fits holds a vector against what a message may have.
func (v *Vector) fits() error {
	p, err := encode(v.Numbers)
	if err != nil {
		return Errorf(Internal, "the embedding could not be encoded: %v", err)
	}
	if len(p) > maxVector {
		return Errorf(PayloadTooLarge, "an embedding of %d numbers takes %d bytes, a message has %d for it: ask for fewer dimensions", len(v.Numbers), len(p), maxVector)
	}
	return nil
}

// addVector takes an embedding: one of a list goes out at once, another with done.
func (s *stream) addVector(now time.Time, v *Vector) {
	if s.vectors == nil {
		s.vectors = sha256.New()
	}
	_ = binary.Write(s.vectors, binary.LittleEndian, v.Numbers) // a hash never fails
	if !s.listed {
		s.single = v.Numbers
		return
	}
	s.segs = append(s.segs, segment{vector: v})
	s.due = now
}

// outcome is what the stream has said so far.
type outcome struct {
	tokens  int
	firstAt time.Time
	empty   bool // no text and no thinking
	vector  []float32
}

func (s *stream) outcome() outcome {
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	return outcome{s.tokens, s.firstAt, s.tokens == 0 && len(s.calls) == 0 && s.text.all.Len() == 0 && s.thinking.all.Len() == 0, s.single}
}

// done ends the stream with what was said; d lacks only the text. final says whether
// the text is wanted in the message; where it does not fit and was not streamed
// either, it goes out in deltas after all.
func (s *stream) done(d Done, final bool) {
	s.do(func() {
		if s.over {
			return
		}
		now := s.box.now()
		s.add(now, true, s.thinking.close(), 0)
		s.add(now, false, s.text.close(), 0)
		text := s.text.all.String()
		d.Text, d.Thinking, d.ToolCalls = &text, s.thinking.all.String(), s.calls
		size := len(text) + len(d.Thinking)
		for _, call := range s.calls {
			size += len(call.Arguments)
		}
		keep := final && size <= maxDoneText
		if keep {
			p, err := (&Reply{Type: TypeDone, ID: s.id, Seq: 1 << 30, Done: &d}).Encode()
			keep = err == nil && len(p) <= maxDoneBytes
		}
		if !keep {
			sum := sha256.Sum256([]byte(text))
			if final && !s.deltas {
				s.deltas = true
				s.add(now, true, d.Thinking, 0)
				s.add(now, false, text, s.tokens)
				for _, call := range s.calls {
					s.addCall(now, call, 0)
				}
			}
			d.TextOmitted, d.Bytes, d.SHA256 = true, len(text), hex.EncodeToString(sum[:])
			d.Text, d.Thinking, d.ToolCalls = nil, "", nil
		}
		s.close(&Reply{Type: TypeDone, ID: s.id, Done: &d})
	})
}

// result ends the stream of an operation that has no text.
func (s *stream) result(d Done) {
	s.do(func() { s.close(&Reply{Type: TypeDone, ID: s.id, Done: &d}) })
}

// fail ends the stream with an error.
func (s *stream) fail(e *Error) {
	s.do(func() { s.close(&Reply{Type: TypeError, ID: s.id, Err: e}) })
}

func (s *stream) close(r *Reply) {
	if !s.over {
		s.over, s.end = true, r
	}
}

func (s *stream) do(f func()) {
	s.box.mu.Lock()
	f()
	s.box.activate(s)
	s.box.mu.Unlock()
	s.box.signal()
}

func (s *stream) pending() bool { return len(s.ready)+len(s.segs) > 0 || s.end != nil }

// lane says where the stream stands, or how long until its text is due.
func (s *stream) lane(now time.Time) (int, time.Duration) {
	switch {
	case len(s.ready) > 0:
		return laneControl, 0
	case s.end != nil:
		return laneTerminal, 0
	case len(s.segs) > 0 && !s.due.After(now):
		return laneDelta, 0
	case len(s.segs) > 0:
		return laneNone, s.due.Sub(now)
	}
	return laneNone, 0
}

func (s *stream) remember(r *Reply, p []byte) {
	switch {
	case r.Type == TypeAccepted:
		s.first = p
	case r.Terminal():
		s.final = p
	}
	s.sent = append(s.sent, sentReply{r.Seq, p})
	s.sentBytes += len(p)
	for s.sentBytes > maxStreamBytes && len(s.sent) > 1 {
		s.sentBytes -= len(s.sent[0].payload)
		s.sent = s.sent[1:]
	}
}

// dropSent forgets the messages that fetch would find; accepted and the terminal
// message stay for repeated requests. It returns the bytes still held.
func (s *stream) dropSent() int {
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	s.sent, s.sentBytes = nil, 0
	s.text, s.thinking, s.calls, s.single = tail{}, tail{}, nil, nil
	return len(s.first) + len(s.final)
}

// busy says whether the stream still has something to send.
func (s *stream) busy() bool {
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	return s.pending()
}

func (s *stream) heldBytes() int {
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	held := s.sentBytes + 4*len(s.single) + s.text.all.Len() + s.thinking.all.Len()
	for _, call := range s.calls {
		held += len(call.Arguments)
	}
	return held
}

// repeat answers the same request again, unchanged: its terminal message, or
// accepted while it is open. What has not gone out yet is not doubled.
func (s *stream) repeat() {
	s.box.mu.Lock()
	p := s.first
	if s.over {
		p = s.final
	}
	if p != nil {
		s.box.putLocked(&message{topic: s.topic, payload: p, qos: 1})
	}
	s.box.mu.Unlock()
	s.box.signal()
}

// resend queues what was sent from seq on, unchanged; false when it is gone.
func (s *stream) resend(from int) bool {
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	if len(s.sent) == 0 && s.seq > 0 {
		return false
	}
	for _, m := range s.sent {
		if m.seq >= from {
			s.box.putLocked(&message{topic: s.topic, payload: m.payload, qos: 1})
		}
	}
	s.box.signal()
	return true
}
