// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"windhover/kernels"
)

// hardware is what the CPU and the mask of the process say, which no file tells.
type hardware struct {
	cpu      string
	topology kernels.Topology
	err      error   // of the topology
	quota    float64 // CPUs whose time is granted; 0: all
	features []string
	selected []kernels.Selection
}

// thisHardware is that of the machine below.
func thisHardware() hardware {
	h := hardware{cpu: cpuName(), quota: kernels.CPUQuota(), features: kernels.Features(), selected: kernels.Selected()}
	h.topology, h.err = kernels.DetectTopology()
	return h
}

// cores says which CPUs do the work and whether all of them may.
func (d *doctor) cores(context.Context) {
	topo := d.hardware.topology
	if err := d.hardware.err; err != nil {
		d.fail("cores", "mount /sys and /proc for this process", "%s", oneLine(err))
		return
	}
	cpus, threads := cpuOrder(topo), d.cfg.Engine.Threads
	if threads > len(cpus) {
		d.fail("cores", "set engine.threads to a smaller number, or to 0", "engine.threads is %d, and this process may use %s", threads, several(len(cpus), "CPU"))
		return
	}
	if threads == 0 {
		threads = len(topo.Big)
	}
	cpus = cpus[:threads]
	detail := fmt.Sprintf("%s; %d big (CPU %s)", d.hardware.cpu, len(topo.Big), cpuRanges(topo.Big))
	if len(topo.Little) > 0 {
		detail += fmt.Sprintf(", %d little (CPU %s)", len(topo.Little), cpuRanges(topo.Little))
	}
	if len(topo.Capacity) > 0 {
		detail += fmt.Sprintf(", capacities %s", capacityText(topo))
	}
	detail += fmt.Sprintf(", told by %s; works on CPU %s", topo.Source, cpuRanges(cpus))
	online, quota := d.line("sys/devices/system/cpu/online"), d.hardware.quota
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
	for _, s := range d.hardware.selected {
		if s.Impl == "generic" {
			slow = append(slow, s.Op)
		}
	}
	has := strings.Join(d.hardware.features, " ")
	if has == "" {
		has = "nothing of use"
	}
	if len(slow) == 0 {
		d.ok("kernels", "%s; the CPU has %s", summaryOf(d.hardware.selected), has)
		return
	}
	advice := "this CPU has no vector instructions that the kernels know: it will be slow"
	if v := d.getenv("KERNELS_DISABLE"); v != "" {
		advice = "unset KERNELS_DISABLE (" + v + ")"
	}
	if len(slow) == len(d.hardware.selected) {
		slow = []string{"everything"}
	}
	d.warn("kernels", advice, "%s; the CPU has %s; in plain Go: %s", summaryOf(d.hardware.selected), has, strings.Join(slow, ", "))
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
