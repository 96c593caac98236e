// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// Two boxes with one device name, as copies of one SD card are, have one client id,
// and a broker ends the older connection of an id when a new one comes: each would
// throw the other out for ever. So every start has a name of its own that nobody can
// copy, the boot in the status, and the device reads its own status topic. Once it has
// read a status of this start there, one of another can only be a rival's: both came
// the same way, in order.
//
// The broker may publish the will of this box's own start before, which had no time for
// a goodbye, after the new one has spoken: the names of the last starts are in the state
// directory, and what they left is overwritten. The broker does that once. An earlier
// start that is heard on a third connection lives, in a box with a copy of the state.
//
// Both boxes see both starts and judge alike: the one that started later steps aside.
// It leaves, and only watches, under a client id of its own, until the other is gone
// for retakeAfter.

// retakeAfter is how long the other box has to be offline until this one takes the
// name: longer than a broker's restart and the pause before a new try.
const retakeAfter = 45 * time.Second

// eventNameTaken is what both boxes say.
const eventNameTaken = "name_taken"

// newBoot names a start.
func newBoot() string { return strings.ToLower(rand.Text()[:10]) }

// hearStatus takes a message on the device's own status topic.
func (s *Server) hearStatus(payload []byte) {
	var st Status
	if !decodeJSON(payload, &st) || st.Boot == "" {
		return
	}
	if st.Boot == s.boot {
		if st.State != StateOffline {
			s.said.Store(true)
		}
		return
	}
	if !s.said.Load() {
		return // what an earlier start of this box has left there
	}
	if st.State == StateOffline && s.ghost(st.Boot) {
		s.publishStatus(true) // nobody shall read of the end of a start that is over
		return
	}
	text := fmt.Sprintf("another box calls itself %q too, started at %s: give one of them another name (device in config.toml)",
		s.cfg.Device, st.Since.Format(time.RFC3339))
	if !s.before(st) {
		if s.aside.CompareAndSwap(false, true) {
			s.cfg.Notify(Notice{Event: NoticeRival, Err: fmt.Errorf("control: %s; this one steps aside", text)})
			s.links.Go(func() { s.standAside(s.linkCtx, text) })
		}
		return
	}
	s.mu.Lock()
	known := s.rival == st.Boot
	s.rival = st.Boot
	s.mu.Unlock()
	if !known {
		s.cfg.Notify(Notice{Event: NoticeRival, Err: fmt.Errorf("control: %s; the other one steps aside", text)})
		s.Event(Occurrence{Event: eventNameTaken, Message: text + "; the other one steps aside"})
	}
	s.publishStatus(true) // in place of what the other one, or its will, has left there
}

// ghostsAllowed is on how many connections a word of an earlier start is believed to be
// left over.
const ghostsAllowed = 2

// ghost says whether what this boot left is left over from an earlier start of this box.
func (s *Server) ghost(boot string) bool {
	if !slices.Contains(s.earlier, boot) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ghosts == nil {
		s.ghosts = map[string]map[uint64]bool{}
	}
	on := s.ghosts[boot]
	if on == nil {
		on = map[uint64]bool{}
		s.ghosts[boot] = on
	}
	var connection uint64
	if s.ctl != nil {
		connection = s.ctl.ups.Load()
	}
	if len(on) <= ghostsAllowed {
		on[connection] = true
	}
	return len(on) <= ghostsAllowed
}

// before says whether this start was before that of another box. Where both say the
// same time the boot decides, so that they never agree on both or neither.
func (s *Server) before(other Status) bool {
	if !s.since.Equal(other.Since) {
		return s.since.Before(other.Since)
	}
	return s.boot < other.Boot
}

// standAside leaves the broker to the other box and watches for its end. It returns
// when this box has the name again, or when ctx ends.
func (s *Server) standAside(ctx context.Context, text string) {
	s.mu.Lock()
	own := []*link{s.ctl, s.dat}
	s.mu.Unlock()
	for _, l := range own {
		l.rest(fmt.Errorf("control: %s", text))
	}
	inner, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	states := make(chan Status, inboxSize)
	w := s.watcher(own[0], states, text)
	go func() { defer close(done); w.run(inner) }()
	s.outlast(inner, states)
	cancel()
	<-done
	s.said.Store(false) // the other one's last word is not news
	s.aside.Store(false)
	for _, l := range own {
		l.wake()
	}
}

// watcher is the connection of a box that stands aside: it reads the status, says once
// a connection why it is there, and takes nothing from the other box.
func (s *Server) watcher(as *link, states chan<- Status, text string) *link {
	box := newOutbox(s.cfg.Now)
	return &link{
		name: "aside", endpoint: as.endpoint, clientID: as.clientID + "-" + s.boot, clean: true,
		watch: []string{s.topics.Status()}, box: box,
		handle: statusReader(states),
		onUp: func() {
			p, err := encode(Occurrence{At: s.cfg.Now().UTC(), Event: eventNameTaken, Message: text + "; this one steps aside"})
			if err == nil { // a time, and text that was written here
				box.put(&message{topic: s.topics.Event(), payload: p, qos: 1})
			}
		},
		onDown: func(err error) { s.cfg.Notify(Notice{Event: NoticeDown, Link: "aside", Err: err}) },
		onTry:  func(err error) { s.cfg.Notify(Notice{Event: NoticeTry, Link: "aside", Err: err}) },
	}
}

// outlast returns when the other box has been offline for s.retake, or ctx ends.
func (s *Server) outlast(ctx context.Context, states <-chan Status) {
	gone := time.NewTimer(s.retake) // running: a topic on which nobody speaks is nobody's
	defer gone.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-gone.C:
			return
		case st := <-states:
			switch {
			case st.State != StateOffline:
				gone.Stop()
			case st.Boot != s.boot: // what this box left behind says nothing
				gone.Reset(s.retake)
			}
		}
	}
}

// statusReader hands on every status that it can read; it never blocks.
func statusReader(to chan<- Status) func(mqtt.Message) {
	return func(m mqtt.Message) {
		var st Status
		if !decodeJSON(m.Payload(), &st) {
			return
		}
		select {
		case to <- st:
		default: // the next one says the same
		}
	}
}
