// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"windhover/control"
)

// events writes an answer as server-sent events. Nothing is sent before something is
// known of the answer, so that a request which fails early is told by its status. A
// client that takes nothing for stallTime is taken for gone, which cancels its request.
// While an accepted request waits, or is silent for another reason, a comment each
// aliveTime shows it and what is between that there is life.
type events struct {
	h     *handler
	w     http.ResponseWriter
	rc    *http.ResponseController
	as    style
	usage bool // an event with it at the end was asked for

	head  head
	spoke bool // the first event of the answer is out

	mu       sync.Mutex // guards what follows, and writing
	accepted bool
	started  bool // the header is out
	wrote    time.Time
}

// run has the request answered and writes what comes.
func (s *events) run(r *http.Request, req *control.Request) {
	s.h.patient(s.rc)
	silent := s.live()
	err := s.h.box.Ask(r.Context(), req, s.reply)
	silent()
	if err == nil {
		return
	}
	if !s.started {
		s.h.hurry(s.rc)
		writeError(s.w, withParam(err))
		return
	}
	_, body := problemOf(err).shape()
	if s.send(body) == nil {
		_ = s.write("data: [DONE]\n\n") // a client that is gone needs no end
	}
}

func (s *events) reply(r *control.Reply) error {
	switch {
	case r.Accepted != nil:
		s.head = s.h.head(s.as, r)
		s.mu.Lock()
		s.accepted, s.wrote = true, s.h.opt.Now()
		s.mu.Unlock()
	case r.Progress != nil:
		// A comment: clients pass over it, proxies and people see that there is life.
		return s.write(fmt.Sprintf(": %s %d/%d\n\n", r.Progress.Phase, r.Progress.Done, r.Progress.Total))
	case r.Delta != nil:
		if err := s.speak(); err != nil {
			return err
		}
		return s.send(s.as.piece(s.head, r.Delta))
	case r.Done != nil:
		return s.end(r.Done)
	}
	return nil
}

// speak sends the first event once.
func (s *events) speak() error {
	if s.spoke {
		return nil
	}
	s.spoke = true
	if first := s.as.first(s.head); first != nil {
		return s.send(first)
	}
	return nil
}

func (s *events) end(d *control.Done) error {
	if err := s.speak(); err != nil {
		return err
	}
	s.head.name(d.Model)
	if err := s.send(s.as.last(s.head, d)); err != nil {
		return err
	}
	if s.usage {
		if err := s.send(s.as.usage(s.head, d)); err != nil {
			return err
		}
	}
	return s.write("data: [DONE]\n\n")
}

func (s *events) send(v any) error {
	var b bytes.Buffer
	b.WriteString("data: ")
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // ends the line
		return err
	}
	b.WriteByte('\n')
	return s.write(b.String())
}

// live writes comments into silence until the returned function is called.
func (s *events) live() (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		look := time.NewTicker(aliveTime / 3)
		defer look.Stop()
		for {
			select {
			case <-end:
				return
			case <-look.C:
				s.breathe()
			}
		}
	}()
	return func() { close(end); <-ended }
}

// breathe writes one comment, if it is time.
func (s *events) breathe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.accepted && s.h.opt.Now().Sub(s.wrote) >= aliveTime {
		_ = s.out(": waiting\n\n") // that the client is gone the server notices itself
	}
}

func (s *events) write(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out(text)
}

// out writes while the lock is held.
func (s *events) out(text string) error {
	if !s.started {
		s.started = true
		s.w.Header().Set("Content-Type", "text/event-stream")
		s.w.Header().Set("X-Accel-Buffering", "no") // nginx: do not gather them
		s.w.WriteHeader(http.StatusOK)
	}
	s.wrote = s.h.opt.Now()
	s.h.hurry(s.rc)
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	err := s.rc.Flush()
	s.h.patient(s.rc)
	return err
}

// patient lets the model take its time; hurry gives the client stallTime from now on.
// A recorder of a test has no deadlines.
func (h *handler) patient(rc *http.ResponseController) { _ = rc.SetWriteDeadline(time.Time{}) }
func (h *handler) hurry(rc *http.ResponseController) {
	_ = rc.SetWriteDeadline(h.opt.Now().Add(stallTime))
}
