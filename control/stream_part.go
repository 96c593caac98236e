// SPDX-License-Identifier: Apache-2.0

package control

import (
	"strings"
	"unicode/utf8"
)

// produce makes the next message: it gets its seq and is remembered here.
func (s *stream) produce() *message {
	var r *Reply
	qos := s.qos
	switch {
	case len(s.ready) > 0:
		r = s.ready[0]
		s.ready = s.ready[1:]
		if r.Type == TypeAccepted {
			qos = 1
		}
	case len(s.segs) > 0 && s.segs[0].vector != nil:
		r = &Reply{Type: TypeVector, ID: s.id, Vector: s.segs[0].vector}
		s.segs = s.segs[1:]
	case len(s.segs) > 0:
		r = &Reply{Type: TypeDelta, ID: s.id, Delta: s.nextDelta()}
	default:
		r, s.end = s.end, nil
		qos = 1
	}
	r.Seq = s.seq
	s.seq++
	p, err := r.Encode()
	if err != nil { // a NaN in a backend's numbers; the stream still has to end
		fail := Reply{Type: TypeError, ID: s.id, Seq: r.Seq, Err: Errorf(Internal, "the answer could not be encoded: %v", err)}
		p, _ = fail.Encode() // strings and integers always encode
	}
	s.remember(r, p)
	m := &message{topic: s.topic, payload: p, qos: qos}
	if qos > 0 {
		m.stream = s
		s.inflight++
	}
	return m
}

// nextDelta takes as much of the first segment as fits in one message.
func (s *stream) nextDelta() *Delta {
	g := &s.segs[0]
	if g.logs != nil {
		return s.nextLogprobs()
	}
	room := deltaRoom
	if g.call != nil {
		room -= callRoom
	}
	cut, n := fit(g.buf, room), g.n
	if cut < len(g.buf) {
		n = g.n * cut / len(g.buf)
	}
	d := &Delta{N: n}
	switch {
	case g.call != nil:
		d.ToolCall = &ToolCall{Index: g.call.Index, ID: g.call.ID, Name: g.call.Name, Arguments: string(g.buf[:cut])}
		g.call.ID, g.call.Name = "", ""
	case g.thinking:
		d.Thinking = string(g.buf[:cut])
	default:
		d.Text = string(g.buf[:cut])
	}
	g.buf, g.n = g.buf[cut:], g.n-n
	s.waits -= n
	if len(g.buf) == 0 {
		s.segs = s.segs[1:]
	}
	return d
}

// nextLogprobs takes as many of the first segment as fit in one message. Of a token
// that does not fit alone the last of the best ones are left out.
func (s *stream) nextLogprobs() *Delta {
	g := &s.segs[0]
	room, n := deltaRoom, 0
	for ; n < len(g.logs); n++ {
		size := g.logs[n].size()
		for n == 0 && size > room && len(g.logs[0].Top) > 0 {
			g.logs[0].Top = g.logs[0].Top[:len(g.logs[0].Top)-1]
			size = g.logs[0].size()
		}
		if n > 0 && size > room {
			break
		}
		room -= size
	}
	d := &Delta{Logprobs: g.logs[:n:n]}
	if g.logs = g.logs[n:]; len(g.logs) == 0 {
		s.segs = s.segs[1:]
	}
	return d
}

// size is the bytes that a token's logprobs take in a message.
func (l *TokenLogprob) size() int {
	p, err := encode(l)
	if err != nil {
		return 0 // produce says what is wrong
	}
	return len(p) + len(",")
}

// tail collects text and holds back the bytes of a character that is not whole yet.
type tail struct {
	all  strings.Builder
	rest []byte // at most utf8.UTFMax-1
}

// push returns the whole characters that s completes. Bytes that can never become a
// character come out as U+FFFD.
func (t *tail) push(s string) string {
	if s == "" {
		return ""
	}
	b := append(t.rest, s...)
	cut := len(b)
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				cut = len(b) - i
			}
			break
		}
	}
	out := strings.ToValidUTF8(string(b[:cut]), "\uFFFD")
	t.rest = append([]byte(nil), b[cut:]...)
	t.all.WriteString(out)
	return out
}

// close returns what was held back.
func (t *tail) close() string {
	text := t.broken()
	t.rest = nil
	t.all.WriteString(text)
	return text
}

// broken is what close will return.
func (t *tail) broken() string {
	if len(t.rest) == 0 {
		return ""
	}
	return "\uFFFD"
}

// fit returns how many bytes of b, whole characters, take at most room bytes in a
// JSON string as encode writes it.
func fit(b []byte, room int) int {
	used := 0
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		cost := size
		switch {
		case r == '"', r == '\\', r == '\n', r == '\r', r == '\t':
			cost = 2
		case r < 0x20, r == 0x7f, r == '\u2028', r == '\u2029', r == utf8.RuneError:
			cost = 6
		}
		if used += cost; used > room {
			return i
		}
		i += size
	}
	return len(b)
}
