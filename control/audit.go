// SPDX-License-Identifier: Apache-2.0

package control

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Audited is a request or a job that has come to an end or was refused, for who keeps a
// record of them. It holds no prompt and no answer. Digests are SHA-256 in hexadecimal.
type Audited struct {
	Job    *JobRecord // nil: it was a request
	Op     string     // of a request, as in the topic; anybody can make one up
	Client string
	ID     string
	Local  bool // it came by Ask

	// Request is the digest of the bytes that it came in as; "" where these were not read
	// to their end, or not kept: the device was too busy, it was too large, or a program
	// of this machine asked without saying.
	Request string

	Code   string // "ok", or the name of an error
	Finish string // of a generation that is done
	Model  ModelRef
	Usage  Usage
	Total  time.Duration // from its acceptance

	MaxTokens int
	Think     bool
	Sampling  *Sampling // nil: it did not come to its own end

	// Answer is the digest of the text, as all its pieces together, or done, have it; of
	// an error that of what was said before, "" if nothing was. Of embed it is that of all
	// vectors in order, their numbers as float32, little-endian. Thinking and Calls are ""
	// where there are none; for each call of a tool its name, a zero byte, its arguments
	// and a zero byte go into Calls.
	Answer, Thinking, Calls string

	// Waits: the last message of the request goes out when the function returns; else it
	// has to be quick.
	Waits bool
}

// Sampling is how the tokens of an answer were chosen, defaults filled in.
type Sampling struct {
	Seed          uint64
	Temperature   float32
	TopP          float32
	TopK          int
	MinP          float32
	RepeatPenalty float32
}

// Digest is the SHA-256 of bytes in hexadecimal.
func Digest(p []byte) string {
	sum := sha256.Sum256(p)
	return hex.EncodeToString(sum[:])
}

// audited hands the end of a request over. r is what was asked, whose entry may have
// forgotten it.
func (d *desk) audited(e *entry, r *Request, a Audited) {
	if d.audit == nil {
		return
	}
	a.Op, a.Client, a.ID, a.Local, a.Request = e.op, e.key.client, e.key.id, e.local(d), e.received
	a.MaxTokens, a.Think, a.Total = r.MaxTokens, r.Think, d.now().Sub(e.accepted)
	if a.Model == (ModelRef{}) {
		a.Model = e.model
	}
	if !e.small {
		a.Answer, a.Thinking, a.Calls = e.stream.digests(a.Code == codeOK)
	}
	d.audit(a)
}

// codeOK is the Code of what did not fail.
const codeOK = "ok"

// auditRefusal hands over a request that was not accepted.
func (d *desk) auditRefusal(in incoming, id string, e *Error) {
	if d.audit != nil {
		d.audit(Audited{Op: in.op, Client: in.client, ID: id, Local: in.local, Request: in.received, Code: e.Code.Name})
	}
}

// digests are those of what the stream has said: all of it when the request is done, else
// what went out in pieces.
func (s *stream) digests(done bool) (answer, thinking, calls string) {
	s.box.mu.Lock()
	text, thought := s.text.all.String(), s.thinking.all.String()
	if done { // as close will give it back
		text, thought = text+s.text.broken(), thought+s.thinking.broken()
	}
	said := s.calls
	streamed := s.deltas
	if s.vectors != nil && done {
		answer = hex.EncodeToString(s.vectors.Sum(nil))
	}
	s.box.mu.Unlock()
	if answer != "" {
		return answer, "", ""
	}
	if !done && !streamed {
		return "", "", ""
	}
	if done || text != "" {
		answer = Digest([]byte(text))
	}
	if thought != "" {
		thinking = Digest([]byte(thought))
	}
	if len(said) > 0 {
		h := sha256.New()
		for _, c := range said {
			_, _ = h.Write([]byte(c.Name + "\x00" + c.Arguments + "\x00")) // a hash never fails
		}
		calls = hex.EncodeToString(h.Sum(nil))
	}
	return answer, thinking, calls
}

// audited hands the end of a job over. mu is held.
func (j *jobs) audited(e *jobEntry) {
	if j.audit == nil {
		return
	}
	a := Audited{Job: &e.rec, Client: e.rec.Client, ID: e.rec.ID, Request: e.received, Code: codeOK, Total: j.now().Sub(e.rec.CreatedAt)}
	if a.Request == "" && len(e.params) > 0 { // it came with an earlier start
		a.Request = Digest(e.params)
	}
	if e.rec.Error != nil {
		a.Code = e.rec.Error.Code.Name
	}
	j.audit(a)
}
