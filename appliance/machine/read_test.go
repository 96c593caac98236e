// SPDX-License-Identifier: Apache-2.0

package machine_test

import (
	"fmt"
	"reflect"
	"testing"

	"windhover/appliance/machine"
	"windhover/internal/testboard"
)

// What each board tells of its heat.
func TestReadHeat(t *testing.T) {
	for _, c := range []struct {
		board   string
		zones   int
		hottest string
		first   string // to slow down
		margin  float64
		nearest string // to the end
		room    float64
	}{
		{"rk3588", 7, "bigcore1-thermal 48", "bigcore1-thermal", 26.924, "bigcore1-thermal", 66.924},
		{"x86", 3, "x86_pkg_temp 61", "coretemp", 39, "acpitz", 91.2},
		{"vm", 0, "", "", 0, "", 0},
	} {
		h := machine.ReadHeat(testboard.Open(t, c.board))
		if len(h.Zones) != c.zones || len(h.Slowed) != 0 {
			t.Errorf("%s: %d zones, slowed by %v; want %d and nothing: %+v", c.board, len(h.Zones), h.Slowed, c.zones, h)
		}
		got := ""
		if top, ok := h.Hottest(); ok {
			got = fmt.Sprintf("%s %.0f", top.Name, top.Celsius)
		}
		if got != c.hottest {
			t.Errorf("%s: the hottest is %q, want %q", c.board, got, c.hottest)
		}
		for want, get := range map[string]func() (machine.Zone, float64, bool){
			fmt.Sprintf("%s %.3f %v", c.first, c.margin, c.first != ""): h.Margin, fmt.Sprintf("%s %.3f %v", c.nearest, c.room, c.nearest != ""): h.Room,
		} {
			if z, left, ok := get(); fmt.Sprintf("%s %.3f %v", z.Name, left, ok) != want {
				t.Errorf("%s: %s, %g degrees, %v; want %s", c.board, z.Name, left, ok, want)
			}
		}
	}
}

// Trip points: those that are set count, the CPU's own sensor says where it slows down,
// and a zone's own shutdown goes before that of the chip.
func TestTrips(t *testing.T) {
	root := testboard.Open(t, "rk3588")
	if z := machine.ReadHeat(root).Zones[0]; !reflect.DeepEqual(z.Trips, []machine.Trip{{Kind: machine.Passive, Celsius: 75}, {Kind: machine.Passive, Celsius: 85}, {Kind: machine.Critical, Celsius: 115}}) {
		t.Errorf("%+v", z)
	}
	testboard.Set(root, "sys/class/thermal/thermal_zone4/trip_point_0_type", "critical")
	testboard.Set(root, "sys/class/thermal/thermal_zone4/trip_point_0_temp", "100000")
	testboard.Set(root, "sys/class/thermal/thermal_zone4/temp", "50000")
	testboard.Set(root, "sys/class/thermal/thermal_zone2/temp", "0") // off
	if z, room, _ := machine.ReadHeat(root).Room(); z.Name != "center-thermal" || room != 50 {
		t.Errorf("nearest %+v, %g; want center-thermal with its own 100, 50 below it", z, room)
	}
	for _, z := range machine.ReadHeat(testboard.Open(t, "x86")).Zones {
		want := map[string][]machine.Trip{"acpitz": {{Kind: machine.Critical, Celsius: 119}}, "coretemp": {{Kind: machine.Passive, Celsius: 100}}}[z.Name]
		if !reflect.DeepEqual(z.Trips, want) {
			t.Errorf("%s: %+v, want %+v", z.Name, z.Trips, want)
		}
	}
}

// What slows the CPU is told; what slows something else is not, nor a device that says
// it is idle by -1.
func TestSlowed(t *testing.T) {
	root := testboard.Open(t, "rk3588")
	testboard.Set(root, "sys/class/thermal/cooling_device1/cur_state", "3")
	testboard.Set(root, "sys/class/thermal/cooling_device3/cur_state", "2") // the graphics
	testboard.Set(root, "sys/class/thermal/cooling_device4/cur_state", "4") // the fan
	if got := machine.ReadHeat(root).Slowed; !reflect.DeepEqual(got, []string{"thermal-cpufreq-1 3 of 8"}) {
		t.Errorf("%v", got)
	}
	testboard.Set(root, "sys/class/thermal/cooling_device2/type", "cpufreq-cpu6") // as later kernels say it
	testboard.Set(root, "sys/class/thermal/cooling_device2/cur_state", "1")
	if got := machine.ReadHeat(root).Slowed; len(got) != 2 || got[1] != "cpufreq-cpu6 1 of 8" {
		t.Errorf("%v", got)
	}
	x86 := testboard.Open(t, "x86")
	if h := machine.ReadHeat(x86); h.Throttles != 24 || len(h.Slowed) != 0 {
		t.Errorf("%d throttles, %v; want 24 and nothing", h.Throttles, h.Slowed)
	}
	testboard.Set(x86, "sys/class/thermal/cooling_device0/cur_state", "1")
	if h := machine.ReadHeat(x86); len(h.Slowed) != 1 {
		t.Errorf("%v, want the processor", h.Slowed)
	}
}

func TestReadClocks(t *testing.T) {
	c := machine.ReadClocks(testboard.Open(t, "rk3588"))
	if len(c.Policies) != 3 || len(c.Of([]int{5, 7})) != 2 || c.Of([]int{4, 5, 6, 7})[1].Name != "policy6" {
		t.Fatalf("%+v", c.Policies)
	}
	want := machine.Policy{Name: "policy4", CPUs: []int{4, 5}, Governor: "ondemand", Driver: "cpufreq-dt", Now: 408e6, Max: 2256e6, Most: 2256e6}
	if got := c.Policies[1]; !reflect.DeepEqual(got, want) || got.Hardware() {
		t.Errorf("%+v, want %+v", got, want)
	}
	if c.Memory == nil || *c.Memory != (machine.Memory{Name: "dmc", Governor: "dmc_ondemand", Now: 528e6, Max: 2112e6, Most: 2112e6}) {
		t.Errorf("%+v", c.Memory)
	}
	x86 := machine.ReadClocks(testboard.Open(t, "x86"))
	if len(x86.Policies) != 8 || x86.Memory != nil || !x86.Policies[0].Hardware() || machine.Governors(x86.Policies) != "powersave" {
		t.Errorf("%+v", x86)
	}
	if vm := machine.ReadClocks(testboard.Open(t, "vm")); vm.Policies != nil || vm.Memory != nil || machine.Governors(vm.Policies) != "" {
		t.Errorf("%+v", vm)
	}
}
