// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"windhover/appliance/machine"
	"windhover/control"
	"windhover/internal/testboard"
	"windhover/kernels"
)

// slow is a model that notes how many cores it is to compute on.
type slow struct {
	servable
	paces []int
}

func (s *slow) Pace(n int) {
	if len(s.paces) == 0 || s.paces[len(s.paces)-1] != n {
		s.paces = append(s.paces, n)
	}
}

func (s *slow) Close() error { return nil }

// stove is a board with four big cores and a model, whose temperature is set.
type stove struct {
	*heat
	root  fstest.MapFS
	model *slow
	clock time.Time
	told  []string
}

func newStove(t *testing.T) *stove {
	t.Helper()
	s := &stove{root: testboard.Open(t, "rk3588"), model: new(slow), clock: time.Unix(1e9, 0)}
	topo, err := kernels.ReadTopology(s.root, nil)
	if err != nil {
		t.Fatal(err)
	}
	reg := newRegistry(func() {})
	reg.activate("m", &serving{servable: s.model, Name: "m"}, control.Model{Name: "m"})
	s.heat = newHeat(s.root, topo, 0, reg, func(o control.Occurrence) { s.told = append(s.told, o.Event+": "+o.Message) }, slog.New(slog.DiscardHandler))
	s.pacer = machine.NewPacer(4) // whatever the quota of this machine
	return s
}

// at looks at a temperature after a time.
func (s *stove) at(after time.Duration, celsius float64) {
	s.clock = s.clock.Add(after)
	testboard.Set(s.root, "sys/class/thermal/thermal_zone1/temp", fmt.Sprint(int(1000*celsius)))
	s.look(context.Background(), s.clock)
}

func (s *stove) numbers() control.Stats {
	var n control.Stats
	s.stats(&n, s.clock)
	return n
}

// (P220, P221) A hot box computes on fewer cores, one at a time, never on none, and says
// so; a cool one gets them back.
func TestHeatPaces_P220_P221(t *testing.T) {
	s := newStove(t)
	s.at(0, 60)
	if s.model.paces[0] != 0 || s.pace() != 0 || s.numbers().RestingCores != 0 {
		t.Fatalf("a cool box: %v", s.model.paces)
	}
	for _, celsius := range []float64{106, 106, 106, 106, 106} {
		s.at(6*time.Second, celsius)
	}
	if n := s.numbers(); n.RestingCores != 3 || n.TempC != 106 || s.pace() != 1 {
		t.Errorf("after five hot looks: %+v, pace %d", n, s.pace())
	}
	s.at(30*time.Second, 80) // cool from here on
	for i := range 6 {
		s.at(15*time.Second, 80)
		if got, want := s.numbers().RestingCores, 3-(i+1)/2; got != want {
			t.Errorf("cool for %d s: %d cores rest, want %d", 15*(i+1), got, want)
		}
	}
	if want := []int{0, 3, 2, 1, 2, 3, 0}; !reflect.DeepEqual(s.model.paces, want) {
		t.Errorf("paces %v, want %v", s.model.paces, want)
	}
	want := []string{
		"thermal: bigcore0-thermal at 106 °C, 9 below where the system shuts down: computing on 3 of 4 cores",
		"thermal: bigcore0-thermal at 106 °C, 9 below where the system shuts down: computing on 2 of 4 cores",
		"thermal: bigcore0-thermal at 106 °C, 9 below where the system shuts down: computing on 1 of 4 cores",
		"thermal: bigcore0-thermal at 80 °C, cool enough: computing on 2 of 4 cores",
		"thermal: bigcore0-thermal at 80 °C, cool enough: computing on 3 of 4 cores",
		"thermal: bigcore0-thermal at 80 °C, cool enough: computing on 4 of 4 cores",
	}
	if !reflect.DeepEqual(s.told, want) {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(s.told, "\n"), strings.Join(want, "\n"))
	}
}

// (P222) That the CPU is slowed is in the numbers for half a minute, and told once in
// ten minutes, whether a cooling device says so or the CPU counts it.
func TestHeatThrottled_P222(t *testing.T) {
	const cooling, count = "sys/class/thermal/cooling_device1/cur_state", "sys/devices/system/cpu/cpu4/thermal_throttle/package_throttle_count"
	s := newStove(t)
	testboard.Set(s.root, count, "7") // before this program began
	s.at(0, 60)
	if s.numbers().Throttled {
		t.Error("throttled by an old count")
	}
	slowed := func() {
		testboard.Set(s.root, cooling, "3")
		s.at(3*time.Second, 86)
		testboard.Set(s.root, cooling, "0")
	}
	slowed()
	if !s.numbers().Throttled {
		t.Error("slowed by a cooling device, and not throttled")
	}
	s.at(29*time.Second, 84)
	if !s.numbers().Throttled {
		t.Error("not throttled after 29 s")
	}
	s.at(time.Second, 84)
	if s.numbers().Throttled {
		t.Error("throttled after 30 s")
	}
	for range 20 {
		slowed()
		s.at(27*time.Second, 84)
	}
	testboard.Set(s.root, count, "8")
	s.at(time.Hour, 84)
	if !s.numbers().Throttled {
		t.Error("the CPU has slowed itself, and is not throttled")
	}
	want := []string{
		"thermal: the CPU is slowed down because of heat, bigcore0-thermal at 86 °C (thermal-cpufreq-1 3 of 8)",
		"thermal: the CPU is slowed down because of heat, bigcore0-thermal at 86 °C (thermal-cpufreq-1 3 of 8)",
		"thermal: the CPU is slowed down because of heat, bigcore0-thermal at 84 °C",
	}
	if !reflect.DeepEqual(s.told, want) {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(s.told, "\n"), strings.Join(want, "\n"))
	}
	if len(s.model.paces) != 1 {
		t.Errorf("paces %v: the kernel's own throttling takes no core", s.model.paces)
	}
}

// (P223) With one core left and three degrees to go there are no new requests, until
// there is room again.
func TestHeatRefuses_P223(t *testing.T) {
	s := newStove(t)
	b := &backend{reg: s.reg, heat: s.heat}
	refused := func() bool {
		_, err := b.Resolve("m")
		if err != nil && !errors.Is(err, control.Thermal) {
			t.Errorf("%v", err)
		}
		return err != nil
	}
	for i, want := range []bool{false, false, true} { // 3, 2 and 1 cores
		if s.at(3*time.Second, 112.5); refused() != want {
			t.Errorf("look %d: refused %v, want %v", i, !want, want)
		}
	}
	for _, c := range []struct {
		celsius float64
		want    bool
	}{{111, true}, {105.5, true}, {105, false}, {111, false}, {112.5, true}} {
		if s.at(3*time.Second, c.celsius); refused() != c.want {
			t.Errorf("%g °C: refused %v, want %v", c.celsius, !c.want, c.want)
		}
	}
	s.sensors = machine.NewSensors(fstest.MapFS{}, nil) // nobody tells: what was known stays
	if s.at(3*time.Second, 0); !refused() {
		t.Error("the sensors are gone, and requests are taken")
	}
}

// The numbers name the governor, and a box that nobody watches, or that tells nothing,
// has none of it.
func TestHeatStats_P224(t *testing.T) {
	s := newStove(t)
	if n := s.numbers(); n != (control.Stats{}) {
		t.Errorf("before the first look: %+v", n)
	}
	s.look(t.Context(), s.clock)
	if n := s.numbers(); n.Governor != "ondemand" || n.TempC != 48.1 {
		t.Errorf("%+v", n)
	}
	var nobody *heat
	for name, root := range map[string]fs.FS{"nobody": nil, "vm": testboard.Open(t, "vm")} {
		h := nobody
		if root != nil {
			h = &heat{sensors: machine.NewSensors(root, nil), reg: newRegistry(func() {}), pacer: machine.NewPacer(2)}
			h.look(t.Context(), time.Unix(1e9, 0))
		}
		var n control.Stats
		h.stats(&n, time.Unix(1e9, 0))
		if n != (control.Stats{}) || h.pace() != 0 || h.refuses() != nil {
			t.Errorf("%s: %+v", name, n)
		}
	}
}

// standsStill is whether the kernel says so of a process.
func standsStill(t *testing.T, pid int) bool {
	t.Helper()
	stat := readText(t, fmt.Sprintf("/proc/%d/stat", pid))
	return strings.HasPrefix(stat[strings.LastIndex(stat, ")")+1:], " T")
}

// (P226) A job stands still while one core is left, goes on when there are more, and is
// canceled in either.
func TestHeatHaltsJobs_P226(t *testing.T) {
	s := newStove(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, pid, done := runJob(t, ctx, "endless", func(b *backend) { b.heat = s.heat })
	hot := func() {
		for range 3 {
			s.at(6*time.Second, 106)
		}
	}
	hot()
	until(t, "the job stands still", func() bool { return standsStill(t, pid) })
	s.at(time.Second, 80)
	s.at(31*time.Second, 80)
	until(t, "the job goes on", func() bool { return !standsStill(t, pid) })
	s.at(6*time.Second, 106)
	until(t, "the job stands still again", func() bool { return standsStill(t, pid) })
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, control.Canceled) {
			t.Errorf("%v", err)
		}
	case <-time.After(waitFor):
		t.Fatal("the job does not end")
	}
	late := exec.Command("sleep", "600")
	if err := late.Start(); err != nil {
		t.Fatal(err)
	}
	leave := s.hold(late.Process)
	until(t, "a job that begins on a hot box stands still", func() bool { return standsStill(t, late.Process.Pid) })
	leave()
	if err := late.Process.Kill(); err != nil {
		t.Error(err)
	}
	if err := late.Wait(); err == nil || len(s.jobs) != 0 {
		t.Errorf("%v, %d processes are held", err, len(s.jobs))
	}
}
