// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"windhover/kernels"
)

// cores says which CPUs do the work and whether all of them may.
func (d *doctor) cores(context.Context) {
	topo, err := kernels.DetectTopology()
	if err != nil {
		d.fail("cores", "mount /sys and /proc for this process", "%s", oneLine(err))
		return
	}
	cpus, threads := cpuOrder(topo), d.cfg.Engine.Threads
	if threads > len(cpus) {
		d.fail("cores", "set engine.threads to a smaller number, or to 0", "engine.threads is %d, and this process may use %d CPUs", threads, len(cpus))
		return
	}
	if threads == 0 {
		threads = len(topo.Big)
	}
	cpus = cpus[:threads]
	detail := fmt.Sprintf("%s; %d big (CPU %s)", cpuName(), len(topo.Big), cpuRanges(topo.Big))
	if len(topo.Little) > 0 {
		detail += fmt.Sprintf(", %d little (CPU %s)", len(topo.Little), cpuRanges(topo.Little))
	}
	if len(topo.Capacity) > 0 {
		detail += fmt.Sprintf(", capacities %s", capacityText(topo))
	}
	detail += fmt.Sprintf(", told by %s; works on CPU %s", topo.Source, cpuRanges(cpus))
	online := d.line("sys/devices/system/cpu/online")
	quota := kernels.CPUQuota()
	switch {
	case quota > 0 && quota < float64(len(cpus)):
		d.warn("cores", "raise CPUQuota= of the unit, or set engine.threads", "%s; the control group grants the time of %.1f CPUs", detail, quota)
	case online != "" && online != cpuRanges(topo.All):
		d.warn("cores", "widen AllowedCPUs= or CPUAffinity= of the unit, or leave taskset out, unless it is meant", "%s; this process may use CPU %s of %s", detail, cpuRanges(topo.All), online)
	default:
		d.ok("cores", "%s", detail)
	}
}

// capacityText lists the capacities from the largest down, with how many CPUs have them.
func capacityText(t kernels.Topology) string {
	count := map[int]int{}
	for _, c := range t.Capacity {
		count[c]++
	}
	var values []int
	for c := range count {
		values = append(values, c)
	}
	slices.Sort(values)
	slices.Reverse(values)
	words := make([]string, len(values))
	for i, c := range values {
		words[i] = fmt.Sprintf("%d x %d", count[c], c)
	}
	return strings.Join(words, " and ")
}

// cpuRanges writes 0,1,2,5 as "0-2,5".
func cpuRanges(cpus []int) string {
	cpus = slices.Clone(cpus)
	slices.Sort(cpus)
	var words []string
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] == cpus[j]+1 {
			j++
		}
		word := strconv.Itoa(cpus[i])
		if j > i {
			word += "-" + strconv.Itoa(cpus[j])
		}
		words = append(words, word)
		i = j + 1
	}
	return strings.Join(words, ",")
}

// kernels says what computes, and names what falls back to plain Go.
func (d *doctor) kernels(context.Context) {
	var slow []string
	for _, s := range kernels.Selected() {
		if s.Impl == "generic" {
			slow = append(slow, s.Op)
		}
	}
	has := strings.Join(kernels.Features(), " ")
	if has == "" {
		has = "nothing of use"
	}
	if len(slow) == 0 {
		d.ok("kernels", "%s; the CPU has %s", kernelSummary(), has)
		return
	}
	advice := "this CPU has no vector instructions that the kernels know: it will be slow"
	if v := os.Getenv("KERNELS_DISABLE"); v != "" {
		advice = "unset KERNELS_DISABLE (" + v + ")"
	}
	d.warn("kernels", advice, "%s; the CPU has %s; in plain Go: %s", kernelSummary(), has, strings.Join(slow, ", "))
}

const cpuDir = "sys/devices/system/cpu/"

// governor says whether the kernel lets the big cores run at full speed.
func (d *doctor) governor(context.Context) {
	topo, err := kernels.DetectTopology()
	if err != nil {
		return // cores has said so
	}
	var slow, capped []string
	seen := map[string]bool{}
	for _, cpu := range topo.Big {
		dir := cpuDir + "cpu" + strconv.Itoa(cpu) + "/cpufreq/"
		g, driver := d.line(dir+"scaling_governor"), d.line(dir+"scaling_driver")
		if g == "" {
			continue
		}
		seen[g] = true
		// These drivers choose the frequency in hardware, whatever the name says.
		if g != "performance" && !strings.Contains(driver, "pstate") {
			slow = append(slow, strconv.Itoa(cpu))
		}
		limit, most := d.line(dir+"scaling_max_freq"), d.line(dir+"cpuinfo_max_freq")
		if limit != most && limit != "" && most != "" {
			capped = append(capped, fmt.Sprintf("CPU %d at %s of %s kHz", cpu, limit, most))
		}
	}
	var names []string
	for g := range seen {
		names = append(names, g)
	}
	slices.Sort(names)
	switch {
	case len(seen) == 0:
		d.ok("governor", "the kernel does not choose frequencies here")
	case len(capped) > 0:
		d.warn("governor", "raise scaling_max_freq of these CPUs", "%s; %s", strings.Join(names, ", "), strings.Join(capped, ", "))
	case len(slow) > 0:
		d.warn("governor", "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
			"%s on CPU %s: the first tokens of an answer come slowly", strings.Join(names, ", "), strings.Join(slow, ","))
	default:
		d.ok("governor", "%s", strings.Join(names, ", "))
	}
}

// hot is where boards like the RK3588 begin to slow down.
const hot = 85

func (d *doctor) heat(context.Context) {
	celsius, throttled := thermal()
	switch {
	case throttled:
		d.warn("heat", "cool the box better: it computes slower than it could", "%.0f °C, and the kernel slows the CPU", celsius)
	case celsius >= hot:
		d.warn("heat", "cool the box better", "%.0f °C", celsius)
	case celsius == 0:
		d.ok("heat", "no sensor here")
	default:
		d.ok("heat", "%.0f °C, full speed", celsius)
	}
}

// line is the first line of a small file, "" if there is none.
func (d *doctor) line(path string) string {
	data, err := fs.ReadFile(d.root, path)
	if err != nil {
		return ""
	}
	text, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSpace(text)
}
