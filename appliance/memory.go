// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bufio"
	"bytes"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// memoryInfo is what the machine, and the control groups the daemon runs in,
// leave to models. Sizes are bytes.
type memoryInfo struct {
	Total     int64
	Available int64 // MemAvailable: counts page cache, mapped weights included
	Limit     int64 // of the control group that leaves the least; 0: none
	Used      int64 // anonymous memory of that control group
	Own       int64 // anonymous memory of this process
}

// budget is what all models together may take.
func (m memoryInfo) budget() int64 {
	b := m.Available
	if m.Limit > 0 {
		b = min(b, m.Limit-m.Used)
	}
	return max(b, 0)
}

// most is what the daemon could have if nothing else were there.
func (m memoryInfo) most() int64 {
	if m.Limit > 0 {
		return min(m.Total, m.Limit)
	}
	return m.Total
}

// readMemory reads /proc and the control groups' files from root, which is
// os.DirFS("/") but in tests.
func readMemory(root fs.FS) memoryInfo {
	var m memoryInfo
	m.Total = procField(root, "proc/meminfo", "MemTotal:")
	m.Available = procField(root, "proc/meminfo", "MemAvailable:")
	m.Own = procField(root, "proc/self/status", "RssAnon:")
	unified, legacy := groups(root)
	// What is over memory.high is throttled to a halt, though not killed.
	for _, file := range []string{"memory.max", "memory.high"} {
		m.tighten(root, "sys/fs/cgroup", unified, file, "anon ")
	}
	m.tighten(root, "sys/fs/cgroup/memory", legacy, "memory.limit_in_bytes", "total_rss ")
	return m
}

// groups are the control groups of this process that limit memory, in the unified
// hierarchy and in that of version 1.
func groups(root fs.FS) (unified, legacy string) {
	data, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return "", ""
	}
	for line := range strings.Lines(string(data)) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		switch path = strings.Trim(path, "/"); {
		case id == "0" && controllers == "":
			unified = path
		case slices.Contains(strings.Split(controllers, ","), "memory"):
			legacy = path
		}
	}
	return unified, legacy
}

// tighten takes over the limit that leaves the least, of group and of those above
// it. Within a namespace of control groups the path may lead nowhere; the mount
// itself is then the group.
func (m *memoryInfo) tighten(root fs.FS, mount, group, file, stat string) {
	for {
		dir := strings.TrimSuffix(mount+"/"+group, "/")
		// Version 1 says "no limit" by a huge number.
		if limit := fileNumber(root, dir+"/"+file); limit > 0 && limit < 1<<60 {
			used := statField(root, dir+"/memory.stat", stat)
			if m.Limit == 0 || limit-used < m.Limit-m.Used {
				m.Limit, m.Used = limit, used
			}
		}
		if group == "" {
			return
		}
		group = group[:max(strings.LastIndexByte(group, '/'), 0)]
	}
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
