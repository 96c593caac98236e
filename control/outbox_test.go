// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// hand is an outbox that the test serves by hand.
type hand struct {
	*outbox
	t     *testing.T
	clock *clock
	gen   uint64
	open  []*message // taken, not acknowledged
}

func newHand(t *testing.T) *hand {
	c := newClock()
	h := &hand{outbox: newOutbox(c.now), t: t, clock: c}
	h.gen = h.attach()
	return h
}

// drain takes what is ready and acknowledges it when ack is set.
func (h *hand) drain(ack bool) []string {
	var out []string
	for {
		m, _ := h.take(h.gen)
		if m == nil {
			return out
		}
		out = append(out, string(m.payload))
		if m.qos == 0 {
			continue
		}
		if ack {
			h.ack(h.gen, m)
		} else {
			h.open = append(h.open, m)
		}
	}
}

func (h *hand) stream(id string, change func(*Request)) *stream {
	r := NewRequest(OpGenerate)
	if change != nil {
		change(r)
	}
	return h.newStream("res/"+id, id, r)
}

func types(payloads []string) string {
	var ts []string
	for _, p := range payloads {
		if r, err := DecodeReply([]byte(p)); err == nil {
			ts = append(ts, fmt.Sprintf("%s%d:%s", r.ID, r.Seq, r.Type))
		} else {
			ts = append(ts, p)
		}
	}
	return strings.Join(ts, " ")
}

func (h *hand) want(got []string, want string) {
	h.t.Helper()
	if g := types(got); g != want {
		h.t.Errorf("sent %s\nwant %s", g, want)
	}
}

func TestBatching_P5(t *testing.T) {
	h := newHand(t)
	s := h.stream("a", nil)
	s.accept(Accepted{})
	h.want(h.drain(true), "a0:accepted")
	push := func(n int) {
		for range n {
			if err := s.push(Event{Text: "x", Tokens: 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	push(3)
	h.want(h.drain(true), "")
	if _, wait := h.take(h.gen); wait != 50*time.Millisecond {
		t.Errorf("due in %v, want 50 ms", wait)
	}
	h.clock.advance(50 * time.Millisecond)
	h.want(h.drain(true), "a1:delta")
	push(16)
	got := h.drain(true)
	h.want(got, "a2:delta")
	if r, _ := DecodeReply([]byte(got[0])); r.Delta.N != 16 || r.Delta.Text != strings.Repeat("x", 16) {
		t.Errorf("delta %+v", r.Delta)
	}
	push(1)
	s.done(Done{Finish: FinishStop}, true)
	h.want(h.drain(true), "a3:delta a4:done")
	if err := s.push(Event{Text: "x"}); err == nil {
		t.Error("text after the end was taken")
	}
	s.fail(Errorf(Internal, "late"))
	s.done(Done{}, true)
	h.want(h.drain(true), "")
}

func TestLanes(t *testing.T) {
	h := newHand(t)
	now := func(r *Request) { r.Flush = 0 }
	a, b, c := h.stream("a", now), h.stream("b", now), h.stream("c", now)
	_ = a.push(Event{Text: "a", Tokens: 1})
	_ = b.push(Event{Text: "b", Tokens: 1})
	b.done(Done{}, true)
	c.accept(Accepted{})
	h.put(&message{topic: "t", payload: []byte("state"), qos: 1})
	h.want(h.drain(true), "state c0:accepted b0:delta b1:done a0:delta")
}

func TestRoundRobin(t *testing.T) {
	h := newHand(t)
	long := strings.Repeat("y", 3*deltaRoom)
	for _, id := range []string{"a", "b"} {
		_ = h.stream(id, func(r *Request) { r.Flush = 0 }).push(Event{Text: long, Tokens: 9})
	}
	h.want(h.drain(true), "a0:delta b0:delta a1:delta b1:delta a2:delta b2:delta")
}

func TestWindowMerges_P33(t *testing.T) {
	h := newHand(t)
	s := h.stream("a", func(r *Request) { r.Flush = 0 })
	sent := 0
	for i := range 400 {
		_ = s.push(Event{Text: fmt.Sprintf("%d ", i), Tokens: 1})
		sent += len(h.drain(false))
	}
	if sent != streamWindow {
		t.Errorf("%d messages outstanding, want %d", sent, streamWindow)
	}
	other := h.stream("b", nil)
	other.accept(Accepted{})
	h.want(h.drain(true), "b0:accepted") // another stream is not held up
	h.ack(h.gen, h.open[0])
	got := h.drain(false)
	if len(got) != 1 || len(s.segs) != 0 {
		t.Errorf("after one acknowledgement: %s, %d segments left", types(got), len(s.segs))
	}
	s.done(Done{}, true)
	for _, m := range h.open[1:] {
		h.ack(h.gen, m)
	}
	h.want(h.drain(true), "a17:done")
}

func TestUTF8NeverSplit_P20(t *testing.T) {
	const text = "héllo 世界 🎉 e\u0301 end"
	for size := 1; size < 6; size++ {
		h := newHand(t)
		s := h.stream("a", func(r *Request) { r.Flush = 0 })
		var got []string
		for i := 0; i < len(text); i += size {
			_ = s.push(Event{Text: text[i:min(i+size, len(text))], Tokens: 1})
			got = append(got, h.drain(true)...)
		}
		s.done(Done{}, true)
		got = append(got, h.drain(true)...)
		var rs []*Reply
		for _, p := range got {
			if !utf8.ValidString(p) || strings.Contains(p, "\uFFFD") {
				t.Errorf("pieces of %d: %q", size, p)
			}
			r, err := DecodeReply([]byte(p))
			if err != nil {
				t.Fatal(err)
			}
			rs = append(rs, r)
		}
		if got := checkStream(t, rs); got != text {
			t.Errorf("pieces of %d gave %q", size, got)
		}
	}
}

func TestBrokenUTF8(t *testing.T) {
	h := newHand(t)
	s := h.stream("a", nil)
	_ = s.push(Event{Text: "a\xffb\xe4\xb8", Tokens: 1})
	s.done(Done{}, true)
	got := h.drain(true)
	r, err := DecodeReply([]byte(got[len(got)-1]))
	if err != nil || *r.Done.Text != "a\uFFFDb\uFFFD" {
		t.Errorf("got %q (%v)", got, err)
	}
}

func TestDeltaSize_P26(t *testing.T) {
	for name, text := range map[string]string{
		"plain": strings.Repeat("word ", 4000), "quotes": strings.Repeat(`"\`, 4000), "controls": strings.Repeat("\x01\n", 4000),
		"lines": strings.Repeat("\u2028", 4000), "chinese": strings.Repeat("世", 4000), "emoji": strings.Repeat("🎉", 4000), "html": strings.Repeat("<&>\x7f", 4000),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHand(t)
			s := h.stream(strings.Repeat("i", 64), nil)
			_ = s.push(Event{Text: text, Tokens: 1000})
			s.done(Done{Finish: FinishStop, Usage: &Usage{}, Timing: &Timing{}}, true)
			var all strings.Builder
			n := 0
			for _, p := range h.drain(true) {
				r, err := DecodeReply([]byte(p))
				if err != nil {
					t.Fatal(err)
				}
				limit := 64 << 10
				if r.Delta != nil {
					limit = 4 << 10
					all.WriteString(r.Delta.Text)
					n += r.Delta.N
				}
				if len(p) > limit {
					t.Errorf("%s of %d bytes, limit %d", r.Type, len(p), limit)
				}
			}
			if all.String() != text || n != 1000 {
				t.Errorf("deltas lose text, or tokens: %d of 1000", n)
			}
		})
	}
}

func TestLongTextIsLeftOut_P11(t *testing.T) {
	text := strings.Repeat("0123456789", 5000)
	sum := sha256.Sum256([]byte(text))
	for _, streamed := range []bool{true, false} {
		h := newHand(t)
		s := h.stream("a", func(r *Request) { r.Stream = streamed })
		_ = s.push(Event{Text: text, Tokens: 5000})
		s.done(Done{Finish: FinishLength}, true)
		var all strings.Builder
		var last *Reply
		for _, p := range h.drain(true) {
			last, _ = DecodeReply([]byte(p))
			if last.Delta != nil {
				all.WriteString(last.Delta.Text)
			}
		}
		d := last.Done
		if d.Text != nil || !d.TextOmitted || d.Bytes != len(text) || d.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("streamed %v: done %+v", streamed, d)
		}
		if all.String() != text {
			t.Errorf("streamed %v: the text is in no delta", streamed)
		}
	}
	// Wanted in no message: left out, and not streamed either.
	h := newHand(t)
	s := h.stream("a", func(r *Request) { r.Stream = false })
	_ = s.push(Event{Text: "x", Tokens: 1})
	s.done(Done{Finish: FinishStop}, false)
	h.want(h.drain(true), "a0:done")
}

func TestProgress_P10(t *testing.T) {
	h := newHand(t)
	s := h.stream("a", nil)
	for i := range 100 {
		_ = s.push(Event{Phase: "prefill", Done: i + 1, Total: 100})
		if i == 0 {
			h.want(h.drain(true), "a0:progress")
		}
	}
	got := h.drain(true)
	h.want(got, "a1:progress") // of the rest the last alone
	if !strings.Contains(got[0], `"done":100`) {
		t.Errorf("got %s", got[0])
	}
	// A reader that keeps up gets four a second.
	s = h.stream("b", nil)
	n := 0
	for i := range 200 { // 20 ms each
		_ = s.push(Event{Phase: "prefill", Done: i + 1, Total: 1000})
		n += len(h.drain(true))
		h.clock.advance(20 * time.Millisecond)
	}
	if n < 14 || n > 17 {
		t.Errorf("%d progress messages in 4 s", n)
	}
}

func TestRedelivery_P23(t *testing.T) {
	h := newHand(t)
	s := h.stream("a", func(r *Request) { r.Flush = 0 })
	s.accept(Accepted{})
	h.drain(true)
	_ = s.push(Event{Text: "1", Tokens: 1})
	h.drain(false)
	_ = s.push(Event{Text: "2", Tokens: 1})
	h.drain(false)
	h.detach(h.gen)
	_ = s.push(Event{Text: "3", Tokens: 1})
	_ = s.push(Event{Text: "4", Tokens: 1})
	if m, _ := h.take(h.gen); m != nil {
		t.Errorf("a dead connection got %s", m.payload)
	}
	old := h.gen
	h.gen = h.attach()
	h.ack(old, h.open[0]) // too late: it goes out again
	got := h.drain(true)
	h.want(got, "a1:delta a2:delta a3:delta")
	if !strings.Contains(got[2], `"34"`) {
		t.Errorf("what waited was not merged: %s", got[2])
	}
	if s.inflight != 0 {
		t.Errorf("%d in flight", s.inflight)
	}
}

func TestPoisonIsDropped_P34(t *testing.T) {
	h := newHand(t)
	h.put(&message{topic: "t", payload: []byte("poison"), qos: 1})
	sent := 0
	for range 5 {
		sent += len(h.drain(false))
		h.detach(h.gen)
		h.gen = h.attach()
	}
	if full, broken := h.lost(); sent != maxLosses || full != 0 || broken != 1 {
		t.Errorf("sent %d times, dropped %d and %d", sent, full, broken)
	}
}

func TestKeyedMessages(t *testing.T) {
	h := newHand(t)
	for i := range 3 {
		h.put(&message{topic: "status", payload: fmt.Append(nil, i), qos: 1, retain: true, key: true})
	}
	h.put(&message{topic: "info", payload: []byte("info"), qos: 1, retain: true, key: true})
	h.want(h.drain(true), "2 info")
	h.put(&message{topic: "status", payload: []byte("3"), qos: 1, key: true})
	h.want(h.drain(true), "3")
}

func TestKeptMessages(t *testing.T) {
	h := newHand(t)
	status := func(p string, keep bool) {
		h.put(&message{topic: "status", payload: []byte(p), qos: 1, key: true, keep: keep})
	}
	status("online", false)
	h.put(&message{topic: "info", payload: []byte("info"), qos: 1, key: true})
	status("stopping", true) // in place of online
	status("stopping", true) // a connection came up meanwhile
	status("last", false)
	status("offline", false)
	h.want(h.drain(true), "stopping info offline")
	status("stopping", true)
	status("last", false)
	m, _ := h.take(h.gen)
	status("offline", false) // last is still the one to replace
	h.ack(h.gen, m)
	h.want(h.drain(true), "offline")
}

func TestRetainedIsSaidTwice_P41(t *testing.T) {
	h := newHand(t)
	status := func(p string) {
		h.put(&message{topic: "status", payload: []byte(p), qos: 1, retain: true, key: true})
	}
	status("1")
	h.want(h.drain(true), "1")
	h.clock.advance(echoAfter / 2)
	status("2")
	h.want(h.drain(true), "2")
	if m, wait := h.take(h.gen); m != nil || wait != echoAfter {
		t.Errorf("due in %v", wait)
	}
	h.clock.advance(echoAfter)
	m, _ := h.take(h.gen)
	if m == nil || string(m.payload) != "2" || !m.retain {
		t.Fatalf("the echo is %+v", m)
	}
	h.ack(h.gen, m)
	h.clock.advance(time.Hour)
	h.want(h.drain(true), "")
}

func TestControlLaneIsBounded(t *testing.T) {
	h := newHand(t)
	for range maxControl + 5 {
		h.put(&message{topic: "t", qos: 1})
	}
	n, _, _ := h.depth()
	if full, broken := h.lost(); n != maxControl || full != 5 || broken != 0 {
		t.Errorf("%d waiting, %d and %d dropped", n, full, broken)
	}
}

func TestFlush(t *testing.T) {
	h := newHand(t)
	h.put(&message{topic: "t", qos: 1})
	h.drain(false)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	h.flush(ctx) // returns although one is open
	done := make(chan struct{})
	go func() { h.flush(context.Background()); close(done) }()
	for waiting := false; !waiting; {
		h.mu.Lock()
		waiting = len(h.idle) == 2
		h.mu.Unlock()
	}
	h.ack(h.gen, h.open[0])
	<-done
	h.put(&message{topic: "t", qos: 1})
	h.detach(h.gen)
	h.flush(context.Background()) // no connection, no waiting
}

func BenchmarkStream(b *testing.B) {
	c := newClock()
	o := newOutbox(c.now)
	gen := o.attach()
	s := o.newStream("res/a", "a", NewRequest(OpGenerate))
	b.ReportAllocs()
	for b.Loop() {
		_ = s.push(Event{Text: " word", Tokens: 1})
		if m, _ := o.take(gen); m != nil {
			o.ack(gen, m)
		}
	}
}
