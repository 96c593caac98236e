// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"testing"

	"windhover/appliance/machine"
	"windhover/appliance/rollout"
	"windhover/control"
	"windhover/control/ota"
)

// A good version is not taken back because its box is hot: what it does then counts only
// beside what the one that serves does under the same heat. A slow one is taken back on
// a hot box too, if that can be seen.
func TestSpeedOfATrialUnderHeat_P237(t *testing.T) {
	hot, cool := true, false
	for _, c := range []struct {
		name         string
		before       float64   // what the one that serves was measured at, cool
		speeds, olds []float64 // of the trial and of the one that serves, one probe after the other; the last one again
		heat         []bool    // at each probe, likewise
		gone         bool      // the one that serves made room
		stays        bool
	}{
		{"cool and fast", 100, []float64{90}, []float64{100}, []bool{cool}, false, true},
		{"cool and slow", 100, []float64{50}, []float64{100}, []bool{cool}, false, false},
		{"cool and slow, alone", 100, []float64{50}, nil, []bool{cool}, true, false},
		{"busy with something else", 100, []float64{50}, []float64{55}, []bool{cool}, false, true},
		{"hot, both slower", 100, []float64{50}, []float64{55}, []bool{hot}, false, true},
		{"hot, and slow beside the other", 100, []float64{20}, []float64{55}, []bool{hot}, false, false},
		{"hot, and alone", 100, []float64{50}, nil, []bool{hot}, true, true},
		{"hot whenever it is measured, cool when the other is", 100, []float64{50}, []float64{100}, []bool{hot, cool, hot, cool, hot, cool, hot}, false, true},
		{"hot at first, then cool and slow", 100, []float64{50}, []float64{100}, []bool{hot, cool, cool}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, t.TempDir())
			ctx := t.Context()
			u := newUpdateDevice(r.deployer)
			load := func(n int64, data []byte) rollout.Version {
				t.Helper()
				v := rollout.Version{Version: "1", Release: n, SHA256: ota.Digest(sha256.Sum256(data))}
				err := u.Stage(ctx, "m", v, func(to string) error { return os.WriteFile(to, data, 0o640) })
				if err == nil {
					err = u.Load(ctx, "m", v)
				}
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
			one := load(1, versionOfModel(t, 1))
			r.probe = func(context.Context, servable) (control.TokenSpeed, error) {
				return control.TokenSpeed{Decode: c.before}, nil
			}
			if err := errors.Join(u.Probe(ctx, "m", one, ota.Health{}), u.Switch(ctx, "m", one)); err != nil {
				t.Fatal(err)
			}
			two := load(2, versionOfModel(t, 2))
			if c.gone {
				old := r.reg.suspend("m")
				t.Cleanup(func() { r.reg.resume("m", old) })
			}
			u.heat = &heat{pacer: machine.NewPacer(4)}
			n := map[bool]int{}
			at := func(list []float64, i int) float64 { return list[min(i, len(list)-1)] }
			probes := 0
			r.probe = func(_ context.Context, s servable) (control.TokenSpeed, error) {
				trial := s == u.loaded["m"].servable
				list := c.olds
				if trial {
					list = c.speeds
				}
				probes++
				u.heat.now.Slowed = nil
				if c.heat[min(probes, len(c.heat)-1)] { // as it is when this one has been measured
					u.heat.now.Slowed = []string{"cpu0 at 1 of 2 GHz"}
				}
				n[trial]++
				return control.TokenSpeed{Decode: at(list, n[trial]-1)}, nil
			}
			if c.heat[0] {
				u.heat.now.Slowed = []string{"cpu0 at 1 of 2 GHz"}
			}
			err := u.Probe(ctx, "m", two, ota.Health{MinTPSRatio: 0.7})
			if c.stays != (err == nil) || err != nil && !errors.Is(err, control.HealthCheckFailed) {
				t.Errorf("after %d probes: %v", probes, err)
			}
		})
	}
}
