// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

const (
	gapFor     = 500 * time.Millisecond // how long a missing seq may still come by itself
	offlineFor = 2 * time.Second        // how long a device that said offline may come back
)

// Answer is the end of a request that was carried out.
type Answer struct {
	ID       string
	Text     string
	Thinking string
	Done     Done // Text and Thinking as they stood in the message
}

// Send asks the device and waits for the end. on, which may be nil, is told each reply
// once, in order, gaps closed; an error of it ends the request. When ctx ends, the
// device is told to cancel. The error of a refused or failed request is its *Error.
func (c *Client) Send(ctx context.Context, r *Request, on func(*Reply) error) (*Answer, error) {
	q := *r
	if q.ID == "" {
		q.ID = newID()
	}
	if q.Op == OpPrompt {
		q.Op = OpChat // the same question, with an id
	}
	payload, err := q.Encode()
	if err != nil {
		return nil, fmt.Errorf("control: request: %w", err)
	}
	s := &sending{
		c: c, id: q.ID, fetchID: newID(), on: on, stash: map[int]*Reply{},
		box:     &mailbox{wake: make(chan struct{}, 1)},
		publish: func() { c.publish(c.topics.Request(c.cfg.Name, q.Op), payload) },
	}
	c.open(s.id, s.box)
	defer func() { c.drop(s.id, s.fetchID) }()
	s.publish()
	a, err := s.wait(ctx)
	if err != nil && a == nil && !s.ended {
		s.cancel()
	}
	return a, err
}

// sending is one Send.
type sending struct {
	c       *Client
	id      string
	fetchID string
	on      func(*Reply) error
	box     *mailbox
	publish func()

	next     int            // seq that is due
	stash    map[int]*Reply // came too early
	ended    bool
	text     strings.Builder
	thinking strings.Builder
}

// wait collects replies until the terminal one. After a third of the longest silence
// it asks for what is missing; after all of it, it gives up.
func (s *sending) wait(ctx context.Context) (*Answer, error) {
	patience := s.c.cfg.AnswerWithin
	began := time.Now()
	heard := began
	timer := time.NewTimer(patience / 3)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.c.done:
			return nil, errShutdown
		case <-timer.C:
			if time.Since(heard) >= patience {
				return nil, ErrNoAnswer
			}
			s.repair()
		case <-s.box.wake:
		}
		replies, _, again := s.box.take()
		for _, r := range replies {
			heard = time.Now()
			a, err := s.file(r)
			if a != nil || err != nil {
				return a, err
			}
		}
		offline := s.next == 0 && s.c.Status().State == StateOffline
		if offline && time.Since(began) >= min(offlineFor, patience) {
			return nil, ErrOffline
		}
		if again {
			s.repair()
		}
		// A look is due sooner while the device is away or replies are missing.
		due := patience / 3
		if offline {
			due = min(due, offlineFor/4)
		}
		if len(s.stash) > 0 {
			due = min(due, gapFor)
		}
		timer.Reset(due)
	}
}

// file takes one message: of the request, or the end of a fetch for it.
func (s *sending) file(r *Reply) (*Answer, error) {
	if r.ID == s.fetchID {
		switch {
		case r.Type == TypeDone && r.Done.Found != nil && !*r.Done.Found && s.next > 0:
			return nil, ErrLost
		case r.Type == TypeDone && r.Done.Found != nil && !*r.Done.Found:
			s.publish() // it never arrived; should it have, the id runs once
		}
		return nil, nil
	}
	if r.Seq < s.next {
		return nil, nil // heard before
	}
	s.stash[r.Seq] = r
	for {
		r, ok := s.stash[s.next]
		if !ok {
			return nil, nil
		}
		delete(s.stash, s.next)
		s.next++
		if s.on != nil {
			if err := s.on(r); err != nil {
				return nil, err
			}
		}
		switch r.Type {
		case TypeDelta:
			s.text.WriteString(r.Delta.Text)
			s.thinking.WriteString(r.Delta.Thinking)
		case TypeError:
			s.ended = true
			return nil, r.Err
		case TypeDone:
			s.ended = true
			return s.answer(r)
		}
	}
}

// answer puts the text together and checks it where the device left it out.
func (s *sending) answer(r *Reply) (*Answer, error) {
	a := &Answer{ID: s.id, Done: *r.Done, Text: s.text.String(), Thinking: s.thinking.String()}
	if r.Done.Text != nil {
		a.Text, a.Thinking = *r.Done.Text, r.Done.Thinking
		return a, nil
	}
	if sum := sha256.Sum256([]byte(a.Text)); a.Text != "" && r.Done.SHA256 != hex.EncodeToString(sum[:]) {
		return a, fmt.Errorf("control: the text of %q does not match its SHA-256", s.id)
	}
	return a, nil
}

// repair asks for what is missing: the request again while nothing was heard, else
// the replies from the one that is due.
func (s *sending) repair() {
	if s.next == 0 && len(s.stash) == 0 {
		s.publish()
		return
	}
	s.c.drop(s.fetchID)
	s.fetchID = newID()
	s.c.open(s.fetchID, s.box)
	f := NewRequest(OpFetch)
	f.ID, f.Target, f.FromSeq = s.fetchID, s.id, s.next
	s.ask(f)
}

// cancel tells the device that nobody waits any more.
func (s *sending) cancel() {
	f := NewRequest(OpCancel)
	f.ID, f.Target = newID(), s.id
	s.ask(f)
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	s.c.link.box.flush(ctx)
}

func (s *sending) ask(r *Request) {
	if p, err := r.Encode(); err == nil { // strings and integers always encode
		s.c.publish(s.c.topics.Request(s.c.cfg.Name, r.Op), p)
	}
}

func decodeJSON(p []byte, v any) bool { return json.Unmarshal(p, v) == nil }
