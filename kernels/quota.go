// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

// CPUQuota is how many CPUs' time the cgroups of this process grant, 0 without
// a limit.
func CPUQuota() float64 { return cpuQuota(os.DirFS("/")) }

// cpuQuota reads proc/self/cgroup and the controllers' files below root, both
// hierarchies: the tightest limit from the process's own group up to the top.
func cpuQuota(root fs.FS) float64 {
	list, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	quota := 0.0
	take := func(q float64) {
		if q > 0 && (quota == 0 || q < quota) {
			quota = q
		}
	}
	for line := range strings.Lines(string(list)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		var mounts []string
		read := quotaV1
		switch {
		case f[0] == "0" && f[1] == "":
			mounts, read = []string{"sys/fs/cgroup", "sys/fs/cgroup/unified"}, quotaV2
		case hasController(f[1], "cpu"):
			mounts = []string{"sys/fs/cgroup/" + f[1], "sys/fs/cgroup/cpu"}
		}
		for _, m := range mounts {
			// A container may see its group's path on the host, which is not
			// there, and its own group mounted as the top.
			for dir := path.Clean("/" + f[2]); ; dir = path.Dir(dir) {
				take(read(root, path.Join(m, dir)))
				if dir == "/" {
					break
				}
			}
		}
	}
	return quota
}

func hasController(list, name string) bool {
	for c := range strings.SplitSeq(list, ",") {
		if c == name {
			return true
		}
	}
	return false
}

// quotaV2 reads "max 100000" or "150000 100000".
func quotaV2(root fs.FS, dir string) float64 {
	b, err := fs.ReadFile(root, path.Join(dir, "cpu.max"))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) != 2 {
		return 0
	}
	return ratio(f[0], f[1])
}

func quotaV1(root fs.FS, dir string) float64 {
	quota, err := fs.ReadFile(root, path.Join(dir, "cpu.cfs_quota_us"))
	if err != nil {
		return 0
	}
	period, err := fs.ReadFile(root, path.Join(dir, "cpu.cfs_period_us"))
	if err != nil {
		return 0
	}
	return ratio(strings.TrimSpace(string(quota)), strings.TrimSpace(string(period)))
}

// ratio is 0 for anything but two positive numbers: "max" and -1 mean no limit.
func ratio(quota, period string) float64 {
	q, err1 := strconv.ParseInt(quota, 10, 64)
	p, err2 := strconv.ParseInt(period, 10, 64)
	if err1 != nil || err2 != nil || q <= 0 || p <= 0 {
		return 0
	}
	return float64(q) / float64(p)
}
