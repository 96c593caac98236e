// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bufio"
	"bytes"
	"io/fs"
	"strconv"
	"strings"
)

// memoryInfo is what the machine, and the control group the daemon runs in,
// leave to models. Sizes are bytes.
type memoryInfo struct {
	Total     int64
	Available int64 // MemAvailable: counts page cache, mapped weights included
	Limit     int64 // the control group's limit; 0: none
	Used      int64 // anonymous memory of the control group
}

// budget is what all models together may take.
func (m memoryInfo) budget() int64 {
	b := m.Available
	if m.Limit > 0 {
		b = min(b, m.Limit-m.Used)
	}
	return max(b, 0)
}

// readMemory reads /proc/meminfo and the control group's files from root, which is
// os.DirFS("/") but in tests.
func readMemory(root fs.FS) memoryInfo {
	var m memoryInfo
	m.Total = procField(root, "proc/meminfo", "MemTotal:")
	m.Available = procField(root, "proc/meminfo", "MemAvailable:")
	group := ""
	if data, err := fs.ReadFile(root, "proc/self/cgroup"); err == nil {
		for line := range strings.Lines(string(data)) {
			if p, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
				group = strings.Trim(p, "/")
			}
		}
	}
	// The tightest limit of the group and of those above it counts.
	for {
		dir := strings.TrimSuffix("sys/fs/cgroup/"+group, "/")
		if limit := fileNumber(root, dir+"/memory.max"); limit > 0 && (m.Limit == 0 || limit < m.Limit) {
			m.Limit = limit
			m.Used = statField(root, dir+"/memory.stat", "anon ")
		}
		if group == "" {
			break
		}
		i := strings.LastIndexByte(group, '/')
		group = group[:max(i, 0)]
	}
	// Version 1 control groups say "no limit" by a huge number.
	if limit := fileNumber(root, "sys/fs/cgroup/memory/memory.limit_in_bytes"); m.Limit == 0 && limit > 0 && limit < 1<<60 {
		m.Limit = limit
		m.Used = statField(root, "sys/fs/cgroup/memory/memory.stat", "total_rss ")
	}
	return m
}

func fileNumber(root fs.FS, path string) int64 {
	data, err := fs.ReadFile(root, path)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil { // "max"
		return 0
	}
	return n
}

// procField reads "Key:   1234 kB".
func procField(root fs.FS, path, key string) int64 {
	return statField(root, path, key) << 10
}

func statField(root fs.FS, path, key string) int64 {
	data, err := fs.ReadFile(root, path)
	if err != nil {
		return 0
	}
	sc := bufio.NewScanner(bytes.NewReader(data))
	for sc.Scan() {
		if rest, ok := strings.CutPrefix(sc.Text(), key); ok {
			f := strings.Fields(rest)
			if len(f) == 0 {
				return 0
			}
			n, err := strconv.ParseInt(f[0], 10, 64)
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}
