// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"windhover/appliance/machine"
	"windhover/control"
	"windhover/kernels"
)

const (
	// lookAtHeat is the time between two looks. A chip without its cooler gains some
	// degrees in it.
	lookAtHeat = 3 * time.Second
	// slowedFor is how long the CPU counts as slowed after it was seen to be: the kernel
	// goes to and fro within seconds, and whoever asks does so each 30.
	slowedFor = 30 * time.Second
	// tellSlowed is the least time between two events that say so.
	tellSlowed = 10 * time.Minute
	// No new requests where one core is left and the system is so near its end, until
	// there is room again.
	refuseRoom = 3
	acceptRoom = 10
)

// heat watches the temperature, and lets models compute on fewer cores before the
// system would shut down. A nil one knows nothing and changes nothing.
type heat struct {
	sensors *machine.Sensors // of look alone
	reg     *registry
	tell    func(control.Occurrence)
	log     *slog.Logger

	mu      sync.Mutex // guards what follows
	pacer   *machine.Pacer
	now     machine.Heat
	looked  bool      // now is of a look
	govern  string    // who chooses the clocks of the cores that compute, at the last look
	silent  []string  // told of as such
	slowed  time.Time // when the CPU was seen to be slowed last
	told    time.Time // when that was told last
	refused bool
	jobs    map[*os.Process]bool // that stand still while it is too hot; whether they do
}

// newHeat begins with as many cores as models compute on.
func newHeat(root fs.FS, topo kernels.Topology, threads int, reg *registry, tell func(control.Occurrence), log *slog.Logger) *heat {
	if threads == 0 {
		threads = len(topo.Big)
	}
	threads = min(threads, len(topo.All))
	if quota := kernels.CPUQuota(); quota > 0 {
		threads = min(threads, int(math.Ceil(quota)))
	}
	return &heat{sensors: machine.NewSensors(root, topo.Big), reg: reg, tell: tell, log: log, pacer: machine.NewPacer(threads)}
}

// watch looks until ctx ends.
func (h *heat) watch(ctx context.Context) {
	t := time.NewTicker(lookAtHeat)
	defer t.Stop()
	for now := time.Now(); ; {
		h.look(ctx, now)
		select {
		case <-ctx.Done():
			return
		case now = <-t.C:
		}
	}
}

// look is one look. It is the only place where the machine is asked: who wants to know
// how hot it is, or asks for an answer, is told what the last look has found.
func (h *heat) look(ctx context.Context, now time.Time) {
	seen := h.sensors.Read(ctx, now)
	if ctx.Err() != nil {
		return // it was interrupted, and has not seen all
	}
	pace, events := h.take(now, seen)
	for _, s := range h.reg.current() { // those that were loaded meanwhile, too
		if m, ok := s.servable.(pacedModel); ok {
			m.Pace(pace)
		}
		h.reg.release(s)
	}
	for _, text := range events {
		h.log.Warn("the box is hot, or cools down", "event", "thermal", "text", text)
		h.tell(control.Occurrence{Event: "thermal", Message: text})
	}
}

// pacedModel is a model that can compute on fewer cores: *engine.Model, or what holds
// one.
type pacedModel interface{ Pace(n int) }

var _ pacedModel = (*takesTurns)(nil)

// take takes a look in, and says what there is to tell.
func (h *heat) take(now time.Time, seen machine.Heat) (pace int, events []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	grown := h.looked && seen.Throttles > h.now.Throttles
	h.now, h.looked, h.govern = seen, true, h.sensors.Governors()
	for _, name := range seen.Silent {
		if !slices.Contains(h.silent, name) {
			events = append(events, name+" does not answer: how hot it is there is not known")
		}
	}
	h.silent = seen.Silent
	zone, room, known := seen.Room()
	if len(seen.Slowed) > 0 || grown {
		h.slowed = now
		if h.told.IsZero() || now.Sub(h.told) >= tellSlowed {
			h.told = now
			events = append(events, "the CPU is slowed down because of heat"+hottest(seen)+because(seen.Slowed))
		}
	}
	before := h.pacer.Cores()
	cores := h.pacer.Look(now, seen)
	switch {
	case cores < before:
		events = append(events, fmt.Sprintf("%s at %.0f °C, %.0f below where the system shuts down: computing on %d of %d cores", zone.Name, zone.Celsius, room, cores, h.pacer.Most()))
	case cores > before:
		events = append(events, fmt.Sprintf("%s at %.0f °C, cool enough: computing on %d of %d cores", zone.Name, zone.Celsius, cores, h.pacer.Most()))
	}
	switch {
	case known && cores == 1 && room < refuseRoom && !h.refused:
		h.refused = true
		events = append(events, fmt.Sprintf("%s at %.0f °C, %.0f below where the system shuts down: no new requests", zone.Name, zone.Celsius, room))
	case known && room >= acceptRoom && h.refused:
		h.refused = false
		events = append(events, fmt.Sprintf("%s at %.0f °C: requests are taken again", zone.Name, zone.Celsius))
	}
	h.haltJobs()
	return h.paceNow(), events
}

// hottest is ", NAME at N °C", "" where nobody tells.
func hottest(seen machine.Heat) string {
	if z, ok := seen.Hottest(); ok {
		return fmt.Sprintf(", %s at %.0f °C", z.Name, z.Celsius)
	}
	return ""
}

func because(slowed []string) string {
	if len(slowed) == 0 {
		return ""
	}
	return " (" + strings.Join(slowed, ", ") + ")"
}

// paceNow is the number of cores for the engine, 0 for all. The caller holds mu.
func (h *heat) paceNow() int {
	if n := h.pacer.Cores(); n < h.pacer.Most() {
		return n
	}
	return 0
}

// pace is what a model that begins to serve keeps to.
func (h *heat) pace() int {
	if h == nil {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.paceNow()
}

// refuses is the error for a new request while the system is about to shut down, else
// nil.
func (h *heat) refuses() error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.refused {
		return nil
	}
	return control.Errorf(control.Thermal, "the machine is too hot, and about to shut down%s: cool it", hottest(h.now))
}

// stats fills in what the numbers of the moment say of heat and clocks, as the last
// look has found it.
func (h *heat) stats(s *control.Stats, now time.Time) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if z, ok := h.now.Hottest(); ok {
		s.TempC = math.Round(10*z.Celsius) / 10
	}
	s.Throttled = len(h.now.Slowed) > 0 || !h.slowed.IsZero() && now.Sub(h.slowed) < slowedFor
	s.RestingCores, s.Governor = h.pacer.Most()-h.pacer.Cores(), h.govern
}
