// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"windhover/control"
	"windhover/internal/testboard"
	"windhover/kernels"
)

var rewrite = flag.Bool("update", false, "write the golden files anew")

func board588(t *testing.T) *doctor { return visitBoard(t, "rk3588", "Orange Pi 5", "sdot", "neon") }

// visitBoard is a doctor on a board of package testboard, with kernels of the
// implementations: the first for products, the last for the rest.
func visitBoard(t *testing.T, name, cpu string, impls ...string) *doctor {
	t.Helper()
	d := visit(t, testboard.Open(t, name))
	d.hardware = hardware{cpu: cpu, features: impls}
	d.hardware.topology, d.hardware.err = kernels.ReadTopology(d.root, nil)
	if len(impls) == 0 {
		impls = []string{"generic"}
	}
	for _, s := range kernels.Selected() {
		s.Impl = impls[len(impls)-1]
		if strings.HasPrefix(s.Op, "matmul") || strings.HasPrefix(s.Op, "gemm") {
			s.Impl = impls[0]
		}
		d.hardware.selected = append(d.hardware.selected, s)
	}
	return d
}

// The part of the screen that is about the machine, word by word.
func TestDoctorScreens(t *testing.T) {
	set := func(d *doctor, path, text string) { testboard.Set(d.root.(fstest.MapFS), path, text) }
	for _, c := range []struct {
		name string
		d    *doctor
		ok   bool
	}{
		{"rk3588", board588(t), true},
		{"rk3588-tuned", board588(t), true},
		{"rk3588-slowed", board588(t), true},
		{"rk3588-resting", board588(t), true},
		{"rk3588-end", board588(t), false},
		{"x86", visitBoard(t, "x86", "Intel(R) Core(TM) i7-8650U CPU", "avx2"), true},
		{"vm", visitBoard(t, "vm", "KVM", "vnni", "avx512", "avx2"), true},
		{"vm-generic", visitBoard(t, "vm", "KVM"), true},
	} {
		const zone, cooling = "sys/class/thermal/thermal_zone1/temp", "sys/class/thermal/cooling_device1/cur_state"
		switch c.name {
		case "rk3588-tuned":
			for _, policy := range []string{"policy4", "policy6"} {
				set(c.d, "sys/devices/system/cpu/cpufreq/"+policy+"/scaling_governor", "performance")
			}
			set(c.d, "sys/class/devfreq/dmc/governor", "performance")
			set(c.d, "sys/class/devfreq/dmc/cur_freq", "2112000000")
		case "rk3588-slowed":
			set(c.d, zone, "86300")
			set(c.d, cooling, "3")
			set(c.d, "sys/devices/system/cpu/cpufreq/policy4/scaling_max_freq", "1608000") // by the heat: not said twice
		case "rk3588-resting":
			set(c.d, zone, "104200")
			set(c.d, cooling, "8")
			c.d.running = &StatusDoc{Stats: control.Stats{RestingCores: 2}}
		case "rk3588-end":
			set(c.d, zone, "111000")
			set(c.d, "sys/class/devfreq/dmc/max_freq", "1068000000")
		}
		for _, check := range []func(context.Context){c.d.cores, c.d.kernels, c.d.governor, c.d.memoryClock, c.d.heat, c.d.memory, c.d.convertMode} {
			check(context.Background())
		}
		if c.d.report.OK != c.ok {
			t.Errorf("%s: ok %v, want %v", c.name, c.d.report.OK, c.ok)
		}
		var got bytes.Buffer
		if err := c.d.report.Print(&got); err != nil {
			t.Fatal(err)
		}
		for _, f := range c.d.report.Findings {
			if (f.Advice == "") != (f.Status == FindingOK) {
				t.Errorf("%s: %+v: what is not ok has advice, and only that", c.name, f)
			}
		}
		path := filepath.Join("testdata", "doctor", c.name+".txt")
		if *rewrite {
			write(t, path, got.String())
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got.String() != string(want) {
			t.Errorf("%s: got\n%s\nwant (-update writes it)\n%s", c.name, got.String(), want)
		}
	}
}

func TestDoctorGovernor(t *testing.T) {
	for _, c := range []struct {
		name, governor, driver, limit, want string
	}{
		{"none", "", "", "", FindingOK},
		{"performance", "performance", "cpufreq-dt", "2256000", FindingOK},
		{"schedutil", "schedutil", "cpufreq-dt", "2256000", FindingWarn},
		{"hardware", "powersave", "intel_pstate", "2256000", FindingOK},
		{"capped", "performance", "cpufreq-dt", "1200000", FindingWarn},
	} {
		d := board588(t)
		root := d.root.(fstest.MapFS)
		for _, policy := range []string{"policy4", "policy6"} {
			dir := "sys/devices/system/cpu/cpufreq/" + policy + "/"
			testboard.Set(root, dir+"scaling_governor", c.governor)
			testboard.Set(root, dir+"scaling_driver", c.driver)
			testboard.Set(root, dir+"scaling_max_freq", c.limit)
		}
		if f := only(t, d, d.governor); f.Status != c.want || (f.Advice == "") != (c.want == FindingOK) {
			t.Errorf("%s: %+v, want %s", c.name, f, c.want)
		}
	}
}

// The mode that doctor recommends follows memory and kernels.
func TestDoctorConvertMode(t *testing.T) {
	for _, c := range []struct {
		available int64
		impl      string
		want, say string
	}{
		{16 << 30, "vnni", FindingOK, "--mode auto: q8 (8x8) up to 1.0 B"},
		{16 << 30, "sdot", FindingOK, "--mode auto"},
		{16 << 30, "neon", FindingOK, "--mode q8 (8x8)"},
		{16 << 30, "generic", FindingOK, "--mode q8 (8x8)"},
		{1 << 30, "avx2", FindingWarn, "room for about 0.4 B in q8"},
		{256 << 20, "avx2", FindingBad, "too little"},
	} {
		d := visit(t, meminfo(c.available))
		d.hardware.selected = []kernels.Selection{{Op: "matmul q8 8x8", Impl: c.impl}}
		if f := only(t, d, d.convertMode); f.Status != c.want || !strings.Contains(f.Detail, c.say) {
			t.Errorf("%d bytes, %s: %+v, want %s, %q", c.available, c.impl, f, c.want, c.say)
		}
	}
}

func TestHertz(t *testing.T) {
	for n, want := range map[int64]string{2256e6: "2.26 GHz", 528e6: "528 MHz", 0: "0 MHz"} {
		if got := hertz(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
