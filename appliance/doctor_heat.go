// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"math"
	"strings"

	"windhover/appliance/machine"
)

// governor says whether the kernel lets the big cores run at full speed.
func (d *doctor) governor(context.Context) {
	const name = "governor"
	if d.hardware.err != nil {
		return // cores has said so
	}
	var slow, cpus, capped []string
	list := machine.ReadClocks(d.root).Of(d.hardware.topology.Big)
	for _, p := range list {
		if p.Governor != "performance" && p.Governor != "" && !p.Hardware() {
			slow, cpus = append(slow, p.Name), append(cpus, cpuRanges(p.CPUs))
		}
		if p.Max < p.Most && p.Max > 0 {
			capped = append(capped, fmt.Sprintf("CPU %s at %s of %s", cpuRanges(p.CPUs), hertz(p.Max), hertz(p.Most)))
		}
	}
	names := machine.Governors(list)
	switch hot := len(machine.ReadHeat(d.root).Slowed) > 0; {
	case names == "":
		d.ok(name, "the kernel does not choose frequencies here")
	case len(capped) > 0 && !hot: // or heat says so
		d.warn(name, "raise scaling_max_freq of these CPUs", "%s; %s", names, strings.Join(capped, ", "))
	case len(slow) > 0:
		files := slow[0]
		if len(slow) > 1 {
			files = "{" + strings.Join(slow, ",") + "}"
		}
		d.warn(name, "echo performance | sudo tee /sys/devices/system/cpu/cpufreq/"+files+"/scaling_governor",
			"%s on CPU %s: the first tokens of an answer come slowly", names, strings.Join(cpus, ","))
	default:
		if list[0].Hardware() {
			names += ", and the CPU chooses for itself"
		}
		d.ok(name, "%s", names)
	}
}

// memoryClock says whether the kernel lets the memory run at full speed, which decides
// how fast tokens are generated. Most machines do not change it.
func (d *doctor) memoryClock(context.Context) {
	const name = "memory clock"
	m := machine.ReadClocks(d.root).Memory
	if m == nil {
		return
	}
	detail := fmt.Sprintf("%s at %s of %s, chosen by %s", m.Name, hertz(m.Now), hertz(m.Most), m.Governor)
	switch {
	case m.Max < m.Most:
		d.warn(name, fmt.Sprintf("echo %d | sudo tee /sys/class/devfreq/%s/max_freq", m.Most, m.Name), "%s, %s at most: tokens are generated at the speed of memory", detail, hertz(m.Max))
	case m.Governor != "performance":
		d.warn(name, fmt.Sprintf("echo performance | sudo tee /sys/class/devfreq/%s/governor", m.Name), "%s: the first tokens of an answer come slowly", detail)
	default:
		d.ok(name, "%s", detail)
	}
}

// hertz writes a frequency as people do.
func hertz(n int64) string {
	if n >= 1e9 {
		return fmt.Sprintf("%.2f GHz", float64(n)/1e9)
	}
	return fmt.Sprintf("%.0f MHz", float64(n)/1e6)
}

// tooNear is how many degrees below its end a system is hardly to be saved.
const tooNear = 10

// heat says how warm it is, where that slows the machine down, and where it ends.
func (d *doctor) heat(context.Context) {
	const (
		name = "heat"
		cool = "cool the box better: a heat sink, a fan, or air around it"
	)
	h := machine.ReadHeat(d.root)
	top, ok := h.Hottest()
	if !ok {
		d.ok(name, "no sensor here")
		return
	}
	detail := fmt.Sprintf("%.0f °C (%s, the hottest of %d)", top.Celsius, top.Name, len(h.Zones))
	nearest, room, ends := h.Room()
	first, left, slows := h.Margin()
	if slows {
		detail += fmt.Sprintf("; slows down at %.0f", first.Celsius+left)
	}
	if ends {
		detail += fmt.Sprintf("; shuts down at %.0f", nearest.Celsius+room)
	}
	resting := 0
	if d.running != nil {
		resting = d.running.Stats.RestingCores
	}
	switch {
	case ends && room < tooNear:
		d.fail(name, cool+", at once", "%s: %s left", detail, several(int(math.Round(room)), "degree"))
	case resting > 0:
		d.warn(name, cool, "%s; %s at rest so that it does not", detail, several(resting, "core"))
	case len(h.Slowed) > 0:
		d.warn(name, cool, "%s; the kernel slows the CPU: %s", detail, strings.Join(h.Slowed, ", "))
	case d.running != nil && d.running.Stats.Throttled:
		d.warn(name, cool, "%s; the CPU slows itself", detail)
	case slows && left <= 0:
		d.warn(name, cool, "%s", detail)
	default:
		d.ok(name, "%s; full speed", detail)
	}
}
