// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Topology is which cores the work belongs on.
type Topology struct {
	Big      []int       // CPUs for the workers, one a core, ascending; never empty
	Little   []int       // the CPUs of the other cores, one a core
	All      []int       // every CPU that is on line and allowed, hardware threads too
	Capacity map[int]int // of the CPUs on line, 1024 for the fastest; empty if not known
	Source   string      // what told big from little: "cpu_capacity", "part number" or "physical cores"
}

// bigPercent of the largest capacity makes a big core. The device tree of the
// RK3588 gives its Cortex-A55 530 of 1024 before frequencies are taken into
// account: half would be too low.
const bigPercent = 75

// DetectTopology reads this machine, within the affinity mask of the process.
func DetectTopology() (Topology, error) {
	allowed, err := AllowedCPUs()
	if err != nil {
		return Topology{}, err
	}
	return ReadTopology(os.DirFS("/"), allowed)
}

// ReadTopology reads sys/devices/system/cpu and proc/cpuinfo below root. Of the
// CPUs on line those in allowed count (nil: all). Big are the cores with at
// least 75 % of the largest capacity in the machine, or, where capacities are
// missing, the larger ones by part number, or else all cores; if none of them
// is allowed, the best that are. Of a core's hardware threads the first allowed
// one is listed.
func ReadTopology(root fs.FS, allowed []int) (Topology, error) {
	online, err := onlineCPUs(root, allowed)
	if err != nil {
		return Topology{}, err
	}
	t := Topology{Capacity: capacities(root, online), Source: "cpu_capacity"}
	rank := t.Capacity
	if len(rank) == 0 {
		rank, t.Source = partRanks(root, online), "part number"
	}
	if len(rank) == 0 {
		t.Source = "physical cores"
		rank = make(map[int]int)
	}
	t.All = slices.Clone(online)
	if allowed != nil {
		t.All = slices.DeleteFunc(t.All, func(c int) bool { return !slices.Contains(allowed, c) })
	}
	if len(t.All) == 0 {
		return Topology{}, fmt.Errorf("kernels: topology: no CPU of %v is allowed (%v)", online, allowed)
	}
	cores := onePerCore(root, t.All)
	top := 0
	for _, c := range online {
		top = max(top, rank[c])
	}
	t.Big, t.Little = split(cores, rank, top)
	if len(t.Big) == 0 {
		top = 0
		for _, c := range cores {
			top = max(top, rank[c])
		}
		t.Big, t.Little = split(cores, rank, top)
	}
	return t, nil
}

func split(cores []int, rank map[int]int, top int) (big, little []int) {
	for _, c := range cores {
		if rank[c]*100 >= top*bigPercent {
			big = append(big, c)
		} else {
			little = append(little, c)
		}
	}
	return big, little
}

const cpuDir = "sys/devices/system/cpu"

// onlineCPUs are the CPUs on line; without sysfs, the allowed ones.
func onlineCPUs(root fs.FS, allowed []int) ([]int, error) {
	s, err := readLine(root, path.Join(cpuDir, "online"))
	if err != nil {
		if len(allowed) == 0 {
			return nil, fmt.Errorf("kernels: topology: %w", err)
		}
		list := slices.Clone(allowed)
		slices.Sort(list)
		return slices.Compact(list), nil
	}
	list, err := parseCPUList(s)
	if err != nil {
		return nil, fmt.Errorf("kernels: topology: %s/online: %w", cpuDir, err)
	}
	return list, nil
}

// parseCPUList reads "0-3,6": ascending, without repeats.
func parseCPUList(s string) ([]int, error) {
	var list []int
	for part := range strings.SplitSeq(strings.TrimSpace(s), ",") {
		first, last, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(first)
		b := a
		if err == nil && isRange {
			b, err = strconv.Atoi(last)
		}
		if err != nil || a < 0 || b < a || b >= maxCPUs {
			return nil, fmt.Errorf("CPU list %q", s)
		}
		for c := a; c <= b; c++ {
			list = append(list, c)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// capacities is empty unless every CPU has one.
func capacities(root fs.FS, cpus []int) map[int]int {
	m := make(map[int]int)
	for _, c := range cpus {
		s, err := readLine(root, cpuFile(c, "cpu_capacity"))
		if err != nil {
			return nil
		}
		n, err := strconv.Atoi(s)
		if err != nil || n <= 0 || n > 1<<20 {
			return nil
		}
		m[c] = n
	}
	return m
}

// onePerCore keeps the first of each core's hardware threads.
func onePerCore(root fs.FS, cpus []int) []int {
	var cores []int
	covered := make(map[int]bool)
	for _, c := range cpus {
		if covered[c] {
			continue
		}
		cores = append(cores, c)
		for _, name := range []string{"topology/thread_siblings_list", "topology/core_cpus_list"} {
			s, err := readLine(root, cpuFile(c, name))
			if err != nil {
				continue
			}
			if siblings, err := parseCPUList(s); err == nil {
				for _, s := range siblings {
					covered[s] = true
				}
				break
			}
		}
	}
	return cores
}

func cpuFile(cpu int, name string) string {
	return path.Join(cpuDir, "cpu"+strconv.Itoa(cpu), name)
}

func readLine(root fs.FS, name string) (string, error) {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(b)), nil
}
