// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"io/fs"
	"path"
	"slices"
	"time"
)

const (
	// answerWithin is how long Read waits for all places together. A sensor on an I2C bus
	// takes milliseconds, one whose bus hangs never answers.
	answerWithin = time.Second
	// saidFor is how long what a place said stays true when it answers no more.
	saidFor = 30 * time.Second
	// anewEach is after how many looks that is read again which hardly ever changes: what
	// there is, names, trip points, governors.
	anewEach = 20
)

// Sensors reads how hot a machine is, again and again, at the cost of a small file a
// place. Each place is read on a goroutine of its own, so that one that takes its time
// delays no other, and one that never answers holds up nobody: it is not asked again
// before it has answered. It is for one goroutine.
type Sensors struct {
	root     fs.FS
	looks    int
	places   []*place
	governor *asked[string]
}

// place is something that is asked, by the directory that it has.
type place struct {
	dir string
	*asked[said]
}

// said is what a place tells.
type said struct {
	zone      Zone
	measured  bool   // the zone is one, and has a temperature
	slowed    string // see Heat.Slowed
	throttles int64
}

// NewSensors are those of sys/class/thermal and, of sys/class/hwmon, those that are in
// CPUs of x86, with the governors of cpus. Those that give no temperature, or one that
// cannot be, are left out.
func NewSensors(root fs.FS, cpus []int) *Sensors {
	return &Sensors{root: root, governor: &asked[string]{read: func(bool) string { return Governors(ReadClocks(root).Of(cpus)) }}}
}

// Read asks every place, and returns after answerWithin or when ctx ends at the latest.
func (s *Sensors) Read(ctx context.Context, now time.Time) Heat {
	anew := s.looks%anewEach == 0
	s.looks++
	if anew {
		s.list()
		s.governor.ask(true, now)
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	var waitFor []*place
	for _, p := range s.places {
		if p.ask(anew, now) {
			waitFor = append(waitFor, p)
		}
	}
	for _, p := range waitFor {
		p.answer(ctx, now)
	}
	s.governor.answer(ctx, now)
	var h Heat
	for _, p := range s.places {
		h.add(p, now)
	}
	return h
}

// Governors names those of the CPUs, as the last Read found them, see [Governors].
func (s *Sensors) Governors() string { return s.governor.last }

func (h *Heat) add(p *place, now time.Time) {
	h.Throttles += p.last.throttles // of one that is silent, too: it only grows
	if now.Sub(p.at) > saidFor {
		name := p.last.zone.Name
		if name == "" {
			name = path.Base(p.dir)
		}
		h.Silent = append(h.Silent, name)
		return
	}
	if p.last.measured {
		h.Zones = append(h.Zones, p.last.zone)
	}
	if p.last.slowed != "" {
		h.Slowed = append(h.Slowed, p.last.slowed)
	}
}

// list finds what there is. Places that were there before stay, with what they said.
func (s *Sensors) list() {
	before := s.places
	s.places = nil
	add := func(dir string, read func(anew bool) said) {
		if i := slices.IndexFunc(before, func(p *place) bool { return p.dir == dir }); i >= 0 {
			s.places = append(s.places, before[i])
			return
		}
		s.places = append(s.places, &place{dir, &asked[said]{read: read}})
	}
	for _, kind := range []struct {
		dir, prefix string
		read        func(fs.FS, string, *Zone, bool) (Zone, bool)
	}{{thermalDir, "thermal_zone", readZone}, {hwmonDir, "hwmon", readChip}} {
		for _, name := range entries(s.root, kind.dir, kind.prefix) {
			dir, known := path.Join(kind.dir, name), new(Zone)
			add(dir, func(anew bool) (a said) {
				a.zone, a.measured = kind.read(s.root, dir, known, anew)
				return a
			})
		}
	}
	for _, name := range entries(s.root, thermalDir, "cooling_device") {
		dir, kind := path.Join(thermalDir, name), new(string)
		add(dir, func(anew bool) said { return said{slowed: readCooling(s.root, dir, kind, anew)} })
	}
	counts := new([]string)
	add(cpuDir, func(anew bool) said { return said{throttles: readThrottles(s.root, counts, anew)} })
}

// asked is a value that is read on a goroutine of its own.
type asked[T any] struct {
	read func(anew bool) T // one at a time
	got  chan T            // what is being read now; nil: nothing
	late bool              // it was waited for in vain
	last T
	at   time.Time // when last came; before the first answer, when it was waited for
}

// ask begins to read, unless an earlier question is still open. It says whether there
// is something to wait for.
func (a *asked[T]) ask(anew bool, now time.Time) bool {
	if a.got != nil && a.late {
		select {
		case a.last = <-a.got: // between the look before and this one
			a.got, a.at = nil, now
		default:
			return false
		}
	}
	if a.got == nil {
		got := make(chan T, 1)
		a.got, a.late = got, false
		go func() { got <- a.read(anew) }()
	}
	return true
}

// answer takes the answer in, if one comes before ctx ends.
func (a *asked[T]) answer(ctx context.Context, now time.Time) {
	if a.got == nil || a.late {
		return
	}
	select {
	case a.last = <-a.got:
		a.got, a.at = nil, now
	case <-ctx.Done():
		select {
		case a.last = <-a.got: // both were there
			a.got, a.at = nil, now
		default:
			a.late = true
			if a.at.IsZero() {
				a.at = now
			}
		}
	}
}
