// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"windhover/control/ota"
)

// Board is the broker, of which control.Monitor is the real one.
type Board interface {
	// Publish retains a document.
	Publish(topic string, payload []byte)
	// Take hands over what came since it was last called.
	Take(on func(topic string, payload []byte))
	// Connected says whether it is there now. One that is not comes back by itself, and
	// is then sent what is to be retained.
	Connected() bool
}

// How Run ends when neither a roll-out has nor its context.
var (
	// ErrRefused says that a document does not come back from the broker.
	ErrRefused = errors.New("fleet: the broker does not give the document back: may this user write to its topic and read it?")
	// ErrOther says that somebody else publishes for the same target.
	ErrOther = errors.New("fleet: somebody else has published a later document for the same target")
	// ErrSlow says that a stage takes longer than Controller.Patience.
	ErrSlow = errors.New("fleet: the stage does not come to an end")
)

// Times of a Controller.
const (
	look    = 250 * time.Millisecond // between two looks at what came
	settled = 750 * time.Millisecond // of silence: what is retained has come
	confirm = 20 * time.Second       // for a document to come back
)

// Controller carries a roll-out out.
type Controller struct {
	Board    Board
	Roster   *Roster
	Limits   Limits
	Patience time.Duration // for one stage; 0: for ever

	Sign func(*ota.Desired) []byte // makes the envelope, the same for the same document
	Save func(State) error         // so that a power cut leaves this state or the one before
	Show func(View)                // is told every change; nil: nobody is
}

// Gather waits until what is retained has been heard: for a moment of silence, at most
// for limit.
func Gather(ctx context.Context, b Board, r *Roster, limit time.Duration) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	began := time.Now()
	for last := began; time.Since(last) < settled && time.Since(began) < limit; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		b.Take(func(topic string, payload []byte) {
			last = time.Now()
			r.Hear(topic, payload)
		})
	}
	return nil
}

// Run carries s on until it is over, its context ends, or it cannot go on; it returns
// the last state, which is stored. Run it again with that to go on. The document of s
// is published again, unless it is there.
func (c *Controller) Run(ctx context.Context, s State) (State, error) {
	if err := c.Save(s); err != nil {
		return s, err
	}
	tick := time.NewTicker(look)
	defer tick.Stop()
	document, back := c.publish(s)
	sent, stage := time.Now(), time.Now()
	var shown string
	for {
		if !back {
			back = bytes.Equal(c.Roster.Desired(s.Wanted.Target), document)
		}
		if c.overtaken(s, document, back) {
			return s, ErrOther
		}
		devices := c.Roster.Devices()
		if back {
			next := s.Step(devices, c.Limits, time.Now())
			if next.Rev != s.Rev || next.Phase != s.Phase || next.Passed != s.Passed {
				if err := c.Save(next); err != nil {
					return s, err
				}
			}
			if next.Rev != s.Rev {
				document, back = c.publish(next)
				sent, stage = time.Now(), time.Now()
			}
			s = next
		}
		there := c.Board.Connected()
		if !there {
			sent = time.Now() // nothing can come back
		}
		if v := ViewOf(s, devices); c.Show != nil {
			v.Away = !there
			if now := fmt.Sprintf("%+v", v); now != shown {
				shown = now
				c.Show(v)
			}
		}
		switch {
		case s.Over() && back:
			return s, nil
		case !back && time.Since(sent) > confirm:
			return s, ErrRefused
		case c.Patience > 0 && time.Since(stage) > c.Patience:
			return s, ErrSlow
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return s, context.Cause(ctx)
		}
		c.Board.Take(c.Roster.Hear)
	}
}

// publish retains the document of a state, and says whether it was there already.
func (c *Controller) publish(s State) (document []byte, there bool) {
	document = c.Sign(s.Document())
	if bytes.Equal(c.Roster.Desired(s.Wanted.Target), document) {
		return document, true
	}
	c.Board.Publish(s.Topic(), document)
	return document, false
}

// overtaken says whether a later document than ours is retained, or another one in the
// place of one that was. It need not be one that devices believe: that somebody else
// writes there is to be seen by a person.
func (c *Controller) overtaken(s State, document []byte, back bool) bool {
	is := c.Roster.Desired(s.Wanted.Target)
	if bytes.Equal(is, document) {
		return false
	}
	e, err := ota.ParseEnvelope(is, ota.MaxDocument)
	if err != nil {
		return false
	}
	d, err := ota.ParseDesired(e.Payload)
	return err == nil && (d.Rev > s.Rev || back && d.Rev == s.Rev)
}
