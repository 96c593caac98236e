// SPDX-License-Identifier: Apache-2.0

package control

import (
	"maps"
	"slices"
	"sync/atomic"
)

// Names of the links.
const (
	linkControl = "control"
	linkData    = "data"
)

// passed counts the messages of a link that nobody answers.
type passed struct{ behind, replays, ignored atomic.Uint64 }

// Counters are running totals and depths, for metrics.
type Counters struct {
	Session         uint64
	Connected       map[string]bool   // by link
	Reconnects      map[string]uint64 // by link
	ReplaysIgnored  uint64
	MessagesIgnored uint64            // empty, or on a topic that is none of ours
	Dropped         uint64            // in either direction
	Drops           map[Drop]uint64   // of both, and what was passed over, by link and reason
	NameTaken       bool              // another box has the device's name, and this one stands aside
	Waiting, Active int               // requests
	OutboxDepth     map[string]int    // by lane
	Jobs            map[string]uint64 // records by status
	JobsEnded       map[JobEnd]uint64 // since the start
}

// Drop is why a link gave a message up.
type Drop struct{ Link, Reason string }

// MarshalText makes it a key of a JSON object: diag shows the counters.
func (d Drop) MarshalText() ([]byte, error) { return []byte(d.Link + "/" + d.Reason), nil }

// Reasons of a Drop.
const (
	DropBehind  = "behind"  // it came while the device was busy with others
	DropReplay  = "replay"  // it came retained: the broker repeats what is long over
	DropIgnored = "ignored" // it came empty, or on a topic that is none of ours
	DropFull    = "full"    // too many wait to be published
	DropLost    = "lost"    // the connection broke with it again and again
)

// JobEnd is how a job ended. Type is one of those that the device knows, or "other".
type JobEnd struct{ Type, Status string }

// MarshalText makes it a key of a JSON object.
func (e JobEnd) MarshalText() ([]byte, error) { return []byte(e.Type + "/" + e.Status), nil }

// Counters reads them all.
func (s *Server) Counters() Counters {
	c := Counters{
		Session: s.session, Connected: map[string]bool{}, Reconnects: map[string]uint64{},
		NameTaken: s.aside.Load(), OutboxDepth: map[string]int{}, Jobs: map[string]uint64{}, Drops: map[Drop]uint64{},
	}
	s.mu.Lock()
	for _, l := range []*link{s.ctl, s.dat} {
		if l == nil {
			continue
		}
		c.Connected[l.name] = l.connected.Load()
		if ups := l.ups.Load(); ups > 1 {
			c.Reconnects[l.name] = ups - 1
		}
	}
	s.mu.Unlock()
	for link, o := range map[string]*outbox{linkControl: s.control, linkData: s.data} {
		control, terminal, delta := o.depth()
		c.OutboxDepth["control"] += control
		c.OutboxDepth["terminal"] += terminal
		c.OutboxDepth["delta"] += delta
		c.Drops[Drop{link, DropFull}], c.Drops[Drop{link, DropLost}] = o.lost()
		in := s.passed[link]
		c.Drops[Drop{link, DropBehind}] = in.behind.Load()
		c.Drops[Drop{link, DropReplay}] = in.replays.Load()
		c.Drops[Drop{link, DropIgnored}] = in.ignored.Load()
	}
	for d, n := range c.Drops {
		switch d.Reason {
		case DropReplay:
			c.ReplaysIgnored += n
		case DropIgnored:
			c.MessagesIgnored += n
		default:
			c.Dropped += n
		}
	}
	c.Waiting, c.Active = s.desk.load()
	for _, r := range s.jobs.list() {
		c.Jobs[r.Status]++
	}
	c.JobsEnded = s.jobs.counted()
	return c
}

// count books how a job ended. mu is held.
func (j *jobs) count(e *jobEntry) {
	typ := e.rec.Type
	if typ != jobCancel && !slices.Contains(j.runner.JobTypes(), typ) {
		typ = "other" // a name that anybody can make up must not become a metric
	}
	j.ended[JobEnd{typ, e.rec.Status}]++
	j.audited(e)
}

// counted is how jobs have ended since the start: those that the device knows are there
// from the beginning, so that the first one that fails is seen to be one more.
func (j *jobs) counted() map[JobEnd]uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := maps.Clone(j.ended)
	for _, typ := range j.runner.JobTypes() {
		for _, status := range []string{JobSucceeded, JobFailed} {
			all[JobEnd{typ, status}] += 0
		}
	}
	return all
}
