// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"time"

	"windhover/appliance/rollout"
	"windhover/control"
	"windhover/control/ota"
)

// probes is how often a version is tried before it counts as too slow: others may have
// computed meanwhile. On a box that is slowed by heat a measure counts only beside one of the
// version that serves under the same heat; where that made room, or the heat changes each
// time, the speed is not judged. Waiting until it is cool could take until winter.
const probes = 3

// Probe lets the loaded version answer, and holds its speed against that of the one
// that serves.
func (u *updateDevice) Probe(ctx context.Context, model string, v rollout.Version, h ota.Health) error {
	d := u.d
	if h.Probe != "" && h.Golden == nil {
		return control.Errorf(control.Incompatible, "this device has no probe %q, and the document says nothing of it: give health.golden", h.Probe)
	}
	d.work.Lock()
	defer d.work.Unlock()
	defer d.pulse.look("", 0)
	t := u.loaded[model]
	if t == nil || t.Digest != v.SHA256.String() {
		return control.Errorf(control.LoadFailed, "version %s is not loaded", v.Version)
	}
	d.state(model, stateProbing)
	before := d.reg.speedOf(model)
	err := golden(ctx, t.servable, h)
	if err != nil {
		return coded(err, control.HealthCheckFailed)
	}
	fair := false // one of the measures says something
	for range probes {
		d.pulse.look("trying "+model, readLimit)
		strained := u.heat.strain(time.Now())
		if t.speed, err = d.probe(ctx, t.servable); err != nil {
			return coded(err, control.HealthCheckFailed)
		}
		if err = rollout.Healthy(h, before, rollout.Sample{TPS: t.speed.Decode}); err == nil {
			return nil
		}
		between := u.heat.strain(time.Now())
		now := u.slowedTo(ctx, model)
		if now > 0 {
			before = min(before, now)
		}
		if err = rollout.Healthy(h, before, rollout.Sample{TPS: t.speed.Decode}); err == nil {
			return nil
		}
		after := u.heat.strain(time.Now())
		fair = fair || strained == between && between == after && (now > 0 || strained == strain{})
	}
	if !fair {
		d.log.Warn("the speed of a version is not judged: the box is slowed by heat", "model", model, "version", v.Version, "error", err)
		return nil
	}
	return err
}

// slowedTo is how fast the version that serves is at this moment, 0 if none does any
// more: a machine that is busy with something else, or hot, is no fault of the version that
// is tried meanwhile.
func (u *updateDevice) slowedTo(ctx context.Context, model string) float64 {
	s, _, err := u.d.reg.find(model, true)
	if err != nil || s == nil {
		return 0 // it made room
	}
	defer u.d.reg.release(s)
	u.d.pulse.look("measuring "+model, readLimit)
	now, err := u.d.probe(ctx, s.servable)
	if err != nil {
		return 0
	}
	return now.Decode
}

// strain is what heat takes from the speed of a machine; zero: nothing.
type strain struct {
	resting int  // cores that rest
	slowed  bool // the CPU is
}

// strain is that of this moment.
func (h *heat) strain(now time.Time) strain {
	var s control.Stats
	h.stats(&s, now)
	return strain{s.RestingCores, s.Throttled}
}
