// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// tree reads testdata/topology/name.txtar, the files that matter of a machine's
// /sys and /proc.
func tree(t *testing.T, name string) fs.FS {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "topology", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	m := make(fstest.MapFS)
	for _, file := range strings.Split("\n"+string(b), "\n-- ")[1:] {
		name, data, ok := strings.Cut(file, " --\n")
		if !ok {
			t.Fatalf("%s: file marker %.40q", name, file)
		}
		m[name] = &fstest.MapFile{Data: []byte(data + "\n")}
	}
	return m
}

func TestReadTopology(t *testing.T) {
	type ints = []int
	all8 := ints{0, 1, 2, 3, 4, 5, 6, 7}
	for _, c := range []struct {
		tree             string
		allowed          ints
		big, little, all ints
		source           string
	}{
		{"rk3588-raw", nil, ints{4, 5, 6, 7}, ints{0, 1, 2, 3}, all8, "cpu_capacity"},
		{"rk3588-scaled", nil, ints{4, 5, 6, 7}, ints{0, 1, 2, 3}, all8, "cpu_capacity"},
		{"rk3588-cpuinfo", nil, ints{4, 5, 6, 7}, ints{0, 1, 2, 3}, all8, "part number"},
		{"rk3588-midr", nil, ints{4, 5, 6, 7}, ints{0, 1, 2, 3}, all8, "part number"},
		{"rk3588-nothing", nil, all8, nil, all8, "physical cores"},
		{"rk3588-raw", ints{6, 2, 7}, ints{6, 7}, ints{2}, ints{2, 6, 7}, "cpu_capacity"},
		{"rk3588-raw", ints{0, 1}, ints{0, 1}, nil, ints{0, 1}, "cpu_capacity"},
		{"rk3588-scaled", ints{3, 99}, ints{3}, nil, ints{3}, "cpu_capacity"},
		{"rk3588-cpuinfo", ints{1, 3}, ints{1, 3}, nil, ints{1, 3}, "part number"},
		{"offline", nil, ints{4, 6, 7}, ints{0, 1, 2, 3}, ints{0, 1, 2, 3, 4, 6, 7}, "cpu_capacity"},
		{"offline", ints{5, 6}, ints{6}, nil, ints{6}, "cpu_capacity"},
		{"amd64-smt", nil, ints{0, 1, 2, 3}, nil, all8, "physical cores"},
		{"amd64-smt", ints{4, 5, 0}, ints{0, 5}, nil, ints{0, 4, 5}, "physical cores"},
		{"amd64-smt-adjacent", nil, ints{0, 2}, nil, ints{0, 1, 2, 3}, "physical cores"},
		{"single", nil, ints{0}, nil, ints{0}, "physical cores"},
		{"three-tiers", nil, ints{7}, ints{0, 1, 2, 3, 4, 5, 6}, all8, "cpu_capacity"},
		{"three-tiers", ints{0, 1, 4, 5}, ints{4, 5}, ints{0, 1}, ints{0, 1, 4, 5}, "cpu_capacity"},
		{"homogeneous", nil, ints{0, 1, 2, 3}, nil, ints{0, 1, 2, 3}, "cpu_capacity"},
		{"part-capacity", nil, ints{0, 1}, nil, ints{0, 1}, "physical cores"},
		{"none", ints{1, 0, 1}, ints{0, 1}, nil, ints{0, 1}, "physical cores"},
	} {
		got, err := ReadTopology(tree(t, c.tree), c.allowed)
		if err != nil {
			t.Errorf("%s %v: %v", c.tree, c.allowed, err)
			continue
		}
		if !slices.Equal(got.Big, c.big) || !slices.Equal(got.Little, c.little) || !slices.Equal(got.All, c.all) {
			t.Errorf("%s %v: big %v little %v all %v, want %v %v %v",
				c.tree, c.allowed, got.Big, got.Little, got.All, c.big, c.little, c.all)
		}
		if got.Source != c.source {
			t.Errorf("%s %v: source %q, want %q", c.tree, c.allowed, got.Source, c.source)
		}
		if known := len(got.Capacity) > 0; known != (c.source == "cpu_capacity") {
			t.Errorf("%s %v: capacities %v with source %q", c.tree, c.allowed, got.Capacity, got.Source)
		}
	}
}

func TestReadTopologyErrors(t *testing.T) {
	for _, c := range []struct {
		tree    string
		allowed []int
	}{
		{"bad-online", nil},
		{"none", nil},
		{"none", []int{}},
		{"rk3588-raw", []int{}},
		{"rk3588-raw", []int{64}},
	} {
		if got, err := ReadTopology(tree(t, c.tree), c.allowed); err == nil {
			t.Errorf("%s %v: %+v, want an error", c.tree, c.allowed, got)
		}
	}
}

func TestDetectTopology(t *testing.T) {
	got, err := DetectTopology()
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Big) == 0 || len(got.All) > len(allowed) {
		t.Errorf("%+v with the CPUs %v allowed", got, allowed)
	}
}

func TestParseCPUList(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []int // nil: an error
	}{
		{"0", []int{0}}, {"0-3", []int{0, 1, 2, 3}}, {"4-5,0,2\n", []int{0, 2, 4, 5}}, {"1,1-2", []int{1, 2}},
		{"", nil}, {"a", nil}, {"3-1", nil}, {"-1", nil}, {"0-99999", nil}, {"1,,2", nil}, {"1-", nil},
	} {
		got, err := parseCPUList(c.in)
		if (err != nil) != (c.want == nil) || !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, %v, want %v", c.in, got, err, c.want)
		}
	}
}

func TestCPUQuota(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  float64
	}{
		{"no cgroups", nil, 0},
		{"v2 without limit", map[string]string{
			"proc/self/cgroup":                "0::/system.slice/a.service\n",
			"sys/fs/cgroup/cpu.max":           "max 100000\n",
			"sys/fs/cgroup/system.slice/x":    "",
			"sys/fs/cgroup/a.service/cpu.max": "100000 100000\n",
		}, 0},
		{"v2 own limit", map[string]string{
			"proc/self/cgroup": "0::/system.slice/a.service\n",
			"sys/fs/cgroup/system.slice/a.service/cpu.max": "150000 100000\n",
			"sys/fs/cgroup/system.slice/cpu.max":           "max 100000\n",
		}, 1.5},
		{"v2 the parent is tighter", map[string]string{
			"proc/self/cgroup":          "0::/a/b\n",
			"sys/fs/cgroup/a/b/cpu.max": "400000 100000\n",
			"sys/fs/cgroup/a/cpu.max":   "200000 100000\n",
		}, 2},
		{"v2 path of the host", map[string]string{
			"proc/self/cgroup":      "0::/docker/0123\n",
			"sys/fs/cgroup/cpu.max": "300000 100000\n",
		}, 3},
		{"v1", map[string]string{
			"proc/self/cgroup": "5:memory:/a\n4:cpu,cpuacct:/a\n1:name=systemd:/a\n",
			"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us":  "50000\n",
			"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us": "100000\n",
		}, 0.5},
		{"v1 without limit, linked name", map[string]string{
			"proc/self/cgroup":                    "4:cpuacct,cpu:/\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":  "-1\n",
			"sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
		}, 0},
		{"garbage", map[string]string{
			"proc/self/cgroup":      "nonsense\n0::relative\n",
			"sys/fs/cgroup/cpu.max": "1 2 3\n",
		}, 0},
	} {
		m := make(fstest.MapFS)
		for name, data := range c.files {
			m[name] = &fstest.MapFile{Data: []byte(data)}
		}
		if got := cpuQuota(m); got != c.want {
			t.Errorf("%s: %g, want %g", c.name, got, c.want)
		}
	}
}
