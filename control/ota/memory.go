// SPDX-License-Identifier: Apache-2.0

package ota

import (
	"maps"
	"time"
)

// Memory is what a device has to remember of documents over restarts, since it is
// what an older document is recognised by. It is a value: methods return another one.
type Memory struct {
	Targets map[string]Seen  `json:"targets,omitempty"` // by Target.String
	Floors  map[string]int64 `json:"floors,omitempty"`  // the least release of each model; never falls
	Time    time.Time        `json:"time,omitzero"`     // it is later than this: the latest signed time seen
}

// Seen is the last document accepted for a target.
type Seen struct {
	Rev    int64  `json:"rev"`
	SHA256 Digest `json:"sha256"` // of its payload
}

// Raise makes release the floor of a model if it is above the present one.
func (m Memory) Raise(name string, release int64) Memory {
	if release <= m.Floors[name] {
		return m
	}
	m.Floors = maps.Clone(m.Floors)
	if m.Floors == nil {
		m.Floors = map[string]int64{}
	}
	m.Floors[name] = release
	return m
}

// saw is the memory after a document was accepted.
func (m Memory) saw(d *Desired, sum Digest, c Clock) Memory {
	m.Targets = maps.Clone(m.Targets)
	if m.Targets == nil {
		m.Targets = map[string]Seen{}
	}
	m.Targets[d.Target.String()] = Seen{d.Rev, sum}
	for i := range d.Models {
		m = m.Raise(d.Models[i].Name, d.Models[i].MinRelease)
	}
	issued := d.IssuedAt
	if c.Sane && issued.After(c.Now) {
		issued = c.Now // the signer's clock runs ahead: his mistake must not expire what others sign
	}
	if issued.After(m.Time) {
		m.Time = issued
	}
	return m
}

// Clock is what a device knows of the time. A box without a battery starts in the
// past, and its clock is only worth something once the network has set it.
type Clock struct {
	Now  time.Time
	Sane bool // set from outside since the start, or kept by a battery
}

// expired says whether a time is over for sure: by a sane clock, or because a signed
// document was issued later. A clock that is not known to be sane expires nothing.
func (c Clock) expired(t time.Time, m Memory) bool {
	return c.Sane && !c.Now.Before(t) || !m.Time.Before(t)
}
