// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Policy is the clock of some CPUs.
type Policy struct {
	Name     string // such as policy4
	CPUs     []int
	Governor string // who chooses, such as schedutil
	Driver   string
	Now      int64 // Hz, 0 where nobody says
	Max      int64 // Hz, what is allowed now
	Most     int64 // Hz, what the CPUs can
}

// Hardware says whether the CPU itself chooses its clock, whatever the name of the
// governor.
func (p Policy) Hardware() bool { return strings.Contains(p.Driver, "pstate") }

// Memory is the clock of the memory, on boards whose kernel changes it.
type Memory struct {
	Name     string // of its device, such as dmc
	Governor string // who chooses, such as dmc_ondemand
	Now      int64  // Hz
	Max      int64  // Hz, what is allowed now
	Most     int64  // Hz, what it can
}

// Clocks are those that decide how fast a model is computed.
type Clocks struct {
	Policies []Policy
	Memory   *Memory // nil: it does not change, or nobody says
}

const (
	policyDir  = cpuDir + "/cpufreq"
	devfreqDir = "sys/class/devfreq"
)

// ReadClocks reads the policies of sys/devices/system/cpu/cpufreq and the clock of the
// memory in sys/class/devfreq: dmc on Rockchip's chips.
func ReadClocks(root fs.FS) Clocks {
	var c Clocks
	for _, name := range entries(root, policyDir, "policy") {
		dir := path.Join(policyDir, name)
		p := Policy{Name: name, Governor: line(root, dir, "scaling_governor"), Driver: line(root, dir, "scaling_driver")}
		for word := range strings.FieldsSeq(line(root, dir, "related_cpus")) {
			if n, err := strconv.Atoi(word); err == nil {
				p.CPUs = append(p.CPUs, n)
			}
		}
		p.Now, p.Max, p.Most = kilohertz(root, dir, "scaling_cur_freq"), kilohertz(root, dir, "scaling_max_freq"), kilohertz(root, dir, "cpuinfo_max_freq")
		c.Policies = append(c.Policies, p)
	}
	for _, name := range entries(root, devfreqDir, "") {
		if !strings.Contains(name, "dmc") && !strings.Contains(name, "ddr") && !strings.Contains(name, "memory-controller") {
			continue
		}
		dir := path.Join(devfreqDir, name)
		m := Memory{Name: name, Governor: line(root, dir, "governor")}
		m.Now, _ = number(root, dir, "cur_freq")
		m.Max, _ = number(root, dir, "max_freq")
		m.Most = m.Max
		for word := range strings.FieldsSeq(line(root, dir, "available_frequencies")) {
			if n, err := strconv.ParseInt(word, 10, 64); err == nil {
				m.Most = max(m.Most, n)
			}
		}
		c.Memory = &m
		break
	}
	return c
}

func kilohertz(root fs.FS, dir, file string) int64 {
	n, _ := number(root, dir, file)
	return 1000 * n
}

// Of are the policies that any of the CPUs belongs to.
func (c Clocks) Of(cpus []int) []Policy {
	var list []Policy
	for _, p := range c.Policies {
		if slices.ContainsFunc(p.CPUs, func(n int) bool { return slices.Contains(cpus, n) }) {
			list = append(list, p)
		}
	}
	return list
}

// Governors names the governors of policies, each once, "" where there is none.
func Governors(list []Policy) string {
	var names []string
	for _, p := range list {
		if p.Governor != "" && !slices.Contains(names, p.Governor) {
			names = append(names, p.Governor)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
