// SPDX-License-Identifier: Apache-2.0

package machine_test

import (
	"fmt"
	"testing"
	"testing/fstest"
	"time"

	"windhover/appliance/machine"
	"windhover/internal/testboard"
)

// heated is a board whose chip has a temperature.
type heated struct {
	root fstest.MapFS
	now  time.Time
	pace *machine.Pacer
}

func heat(t *testing.T, board string, cores int) *heated {
	return &heated{testboard.Open(t, board), time.Unix(1e9, 0), machine.NewPacer(cores)}
}

// look lets time pass and looks at a temperature of the second zone, bigcore0.
func (h *heated) look(after time.Duration, celsius float64) int {
	h.now = h.now.Add(after)
	testboard.Set(h.root, "sys/class/thermal/thermal_zone1/temp", fmt.Sprint(int(celsius*1000)))
	return h.pace.Look(h.now, machine.ReadHeat(h.root))
}

// A board that grows hot loses a core at a time and keeps the last; one that cools gets
// them back, a core at a time and slowly.
func TestPaceDownAndUp(t *testing.T) {
	h := heat(t, "rk3588", 4)
	for i, step := range []struct {
		after   time.Duration
		celsius float64
		want    int
	}{
		{0, 50, 4}, {time.Hour, 104.9, 4}, // the kernel has slowed it down long ago
		{3 * time.Second, 105.1, 3},
		{3 * time.Second, 106, 3}, // one core less is given time to show
		{3 * time.Second, 106, 2},
		{3 * time.Second, 111, 1},   // there is no time
		{3 * time.Second, 114.9, 1}, // never none
		{time.Hour, 114.9, 1},
		{3 * time.Second, 104, 1}, // neither hot nor cool: nothing changes
		{time.Hour, 95.1, 1},
		{3 * time.Second, 94.9, 1}, // cool, and not for long yet
		{29 * time.Second, 94, 1},
		{3 * time.Second, 96, 1}, // not cool: from the beginning
		{3 * time.Second, 94, 1},
		{29 * time.Second, 94, 1},
		{1 * time.Second, 94, 2},
		{29 * time.Second, 94, 2},
		{1 * time.Second, 94, 3},
		{30 * time.Second, 94, 4},
		{time.Hour, 50, 4},
	} {
		if got := h.look(step.after, step.celsius); got != step.want {
			t.Fatalf("step %d, %g °C: %d cores, want %d", i, step.celsius, got, step.want)
		}
	}
}

// A board in a case: each core makes it 22 degrees hotter than the air of 40, so that it
// cools two of four for good and three never. It does not shut down, it does not go to and
// fro, and it does not end with fewer cores than it can cool.
func TestPaceDoesNotFlap(t *testing.T) {
	h := heat(t, "rk3588", 4)
	const look, hours = 3 * time.Second, 4
	celsius, changes, late, sum := 60.0, 0, 0, 0
	cores := h.pace.Cores()
	steps := int(hours * time.Hour / look)
	for i := range steps {
		celsius += (40 + 22*float64(cores) - celsius) * look.Seconds() / 60
		n := h.look(look, celsius)
		if celsius > 114 {
			t.Fatalf("after %v: %.1f °C with %d cores", time.Duration(i)*look, celsius, cores)
		}
		if d := n - cores; d > 1 || d < -1 {
			t.Fatalf("%d cores after %d", n, cores)
		}
		if n != cores {
			changes++
			if i > steps/2 {
				late++
			}
		}
		cores = n
		sum += n
	}
	// Two changes each ten minutes is what the longest wait allows.
	if changes < 4 || changes > 2*6*hours+12 || late > 2*6*hours/2+2 {
		t.Errorf("%d changes in %d hours, %d of them in the second half", changes, hours, late)
	}
	if mean := float64(sum) / float64(steps); mean < 1.9 || mean > 3 {
		t.Errorf("%.2f cores on average, want about the two that can be cooled", mean)
	}
}

// After a time without trouble the first wait is the short one again.
func TestPaceForgives(t *testing.T) {
	h := heat(t, "rk3588", 2)
	cycle := func() (wait time.Duration) {
		h.look(time.Minute, 106)
		for h.pace.Cores() < 2 {
			h.look(time.Second, 90)
			wait += time.Second
		}
		return wait - time.Second // the first look begins it
	}
	for i, want := range []time.Duration{30, 60, 120, 240, 480, 600, 600} {
		if got := cycle(); got != want*time.Second {
			t.Errorf("time %d: a core comes back after %v, want %v", i, got, want*time.Second)
		}
	}
	h.look(11*time.Minute, 60)
	if got := cycle(); got != 30*time.Second {
		t.Errorf("after a quiet time: %v, want 30 s", got)
	}
}

// A machine that does not say where it shuts down is left alone, and a sensor that fails
// for a moment neither takes a core nor gives one.
func TestPaceUnknown(t *testing.T) {
	for _, board := range []string{"vm", "x86"} {
		if got := heat(t, board, 4).look(0, 110); got != 4 { // of x86 the second zone has no shutdown
			t.Errorf("%s: %d cores, want 4", board, got)
		}
	}
	h := heat(t, "rk3588", 4)
	h.look(0, 106)
	full := h.root
	h.root = fstest.MapFS{}
	if got := h.look(time.Hour, 0); got != 3 {
		t.Errorf("no sensor: %d cores, want the 3 of before", got)
	}
	h.root = full
	if got := h.look(time.Hour, 90); got != 3 {
		t.Errorf("one look after the gap: %d cores, want 3", got)
	}
	if p := machine.NewPacer(0); p.Cores() != 1 || p.Most() != 1 {
		t.Errorf("no core: %d of %d, want 1 of 1", p.Cores(), p.Most())
	}
}
