// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"io/fs"
	"strconv"
	"strings"
)

// A part names a core design: the implementer and part number fields of MIDR_EL1.
type part struct{ implementer, number uint64 }

// littleParts are the designs that are the smaller one wherever they stand
// beside another.
var littleParts = map[part]bool{
	{0x41, 0xd02}: true, // Arm Cortex-A34
	{0x41, 0xd03}: true, // A53
	{0x41, 0xd04}: true, // A35
	{0x41, 0xd05}: true, // A55
	{0x41, 0xd46}: true, // A510
	{0x41, 0xd80}: true, // A520
	{0x51, 0x801}: true, // Qualcomm Kryo 2xx Silver
	{0x51, 0x803}: true, // Kryo 3xx Silver
	{0x51, 0x805}: true, // Kryo 4xx Silver
}

// partRanks is 1 for little parts and 2 for others; empty unless every CPU's part
// is known and there are both.
func partRanks(root fs.FS, cpus []int) map[int]int {
	parts := cpuinfoParts(root)
	rank := make(map[int]int)
	kinds := make(map[int]bool)
	for _, c := range cpus {
		p, ok := midrPart(root, c)
		if !ok {
			if p, ok = parts[c]; !ok {
				return nil
			}
		}
		rank[c] = 2
		if littleParts[p] {
			rank[c] = 1
		}
		kinds[rank[c]] = true
	}
	if len(kinds) < 2 {
		return nil
	}
	return rank
}

// midrPart reads a CPU's identification register where sysfs shows it.
func midrPart(root fs.FS, cpu int) (part, bool) {
	s, err := readLine(root, cpuFile(cpu, "regs/identification/midr_el1"))
	if err != nil {
		return part{}, false
	}
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		return part{}, false
	}
	return part{v >> 24 & 0xff, v >> 4 & 0xfff}, true
}

// cpuinfoParts reads "processor", "CPU implementer" and "CPU part" of
// proc/cpuinfo, one group of lines a CPU.
func cpuinfoParts(root fs.FS) map[int]part {
	b, err := fs.ReadFile(root, "proc/cpuinfo")
	if err != nil {
		return nil
	}
	parts := make(map[int]part)
	cpu, p := -1, part{}
	for line := range strings.Lines(string(b)) {
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(value), 0, 32)
		if err != nil {
			continue
		}
		switch strings.TrimSpace(key) {
		case "processor":
			cpu, p = int(n), part{}
		case "CPU implementer":
			p.implementer = n
		case "CPU part":
			p.number = n
			if cpu >= 0 {
				parts[cpu] = p
			}
		}
	}
	return parts
}
