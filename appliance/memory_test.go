// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"testing"
	"testing/fstest"

	"windhover/engine"
)

const (
	meminfo4G = "MemTotal:        3884884 kB\nMemFree:          211820 kB\nMemAvailable:    2981888 kB\nBuffers: 1 kB\n"
	status    = "Name:\twindhover\nVmRSS:\t  900000 kB\nRssAnon:\t   51200 kB\nRssFile:\t  848800 kB\n"
	avail     = 2981888 << 10
	none      = "9223372036854771712\n" // "no limit" in version 1
)

// tree is a machine with the given files beside /proc/meminfo.
func tree(files map[string]string) fstest.MapFS {
	fs := fstest.MapFS{"proc/meminfo": {Data: []byte(meminfo4G)}, "proc/self/status": {Data: []byte(status)}}
	for name, data := range files {
		fs[name] = &fstest.MapFile{Data: []byte(data)}
	}
	return fs
}

// The trees are as recorded on the systems named.
func TestReadMemory(t *testing.T) {
	unit := "0::/system.slice/windhover.service\n"
	tests := []struct {
		name   string
		files  map[string]string
		limit  int64
		used   int64
		budget int64
	}{
		{"no control groups", nil, 0, 0, avail},
		{"Debian 12, systemd, no limit", map[string]string{
			"proc/self/cgroup": unit,
			"sys/fs/cgroup/system.slice/windhover.service/memory.max":  "max\n",
			"sys/fs/cgroup/system.slice/windhover.service/memory.high": "max\n",
			"sys/fs/cgroup/system.slice/memory.max":                    "max\n",
		}, 0, 0, avail},
		{"MemoryMax= in a drop-in", map[string]string{
			"proc/self/cgroup": unit,
			"sys/fs/cgroup/system.slice/windhover.service/memory.max":  "1073741824\n",
			"sys/fs/cgroup/system.slice/windhover.service/memory.stat": "anon 73741824\nfile 900000000\n",
		}, 1 << 30, 73741824, 1000000000},
		{"MemoryHigh= thrashes before MemoryMax= kills", map[string]string{
			"proc/self/cgroup": unit,
			"sys/fs/cgroup/system.slice/windhover.service/memory.max":  "2147483648\n",
			"sys/fs/cgroup/system.slice/windhover.service/memory.high": "536870912\n",
			"sys/fs/cgroup/system.slice/windhover.service/memory.stat": "anon 36870912\n",
		}, 512 << 20, 36870912, 500000000},
		{"a tighter slice above", map[string]string{
			"proc/self/cgroup": unit,
			"sys/fs/cgroup/system.slice/windhover.service/memory.max":  "1073741824\n",
			"sys/fs/cgroup/system.slice/windhover.service/memory.stat": "anon 1\n",
			"sys/fs/cgroup/system.slice/memory.max":                    "1200000000\n",
			"sys/fs/cgroup/system.slice/memory.stat":                   "anon 400000000\n", // of others
		}, 1200000000, 400000000, 800000000},
		{"a namespace of its own, as in Docker", map[string]string{
			"proc/self/cgroup":          "0::/\n",
			"sys/fs/cgroup/memory.max":  "536870912\n",
			"sys/fs/cgroup/memory.stat": "anon 0\n",
		}, 512 << 20, 0, 512 << 20},
		{"version 1, in a group", map[string]string{
			"proc/self/cgroup":                                   "9:name=systemd:/\n4:memory:/box/one\n2:cpu,cpuacct:/\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":         none,
			"sys/fs/cgroup/memory/box/memory.limit_in_bytes":     none,
			"sys/fs/cgroup/memory/box/one/memory.limit_in_bytes": "157286400\n",
			"sys/fs/cgroup/memory/box/one/memory.stat":           "cache 5\ntotal_cache 7\ntotal_rss 57286400\n",
		}, 150 << 20, 57286400, 100000000},
		{"version 1, path of the host", map[string]string{
			"proc/self/cgroup":                           "4:memory:/docker/0123\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "157286400\n",
			"sys/fs/cgroup/memory/memory.stat":           "total_rss 0\n",
		}, 150 << 20, 0, 150 << 20},
		{"a limit that is used up", map[string]string{
			"proc/self/cgroup":          "0::/\n",
			"sys/fs/cgroup/memory.max":  "1000\n",
			"sys/fs/cgroup/memory.stat": "anon 2000\n",
		}, 1000, 2000, 0},
		{"files full of nonsense", map[string]string{
			"proc/self/cgroup":          "what\n:\n::::\n0:x\n",
			"sys/fs/cgroup/memory.max":  "-5\n",
			"sys/fs/cgroup/memory.high": "12 monkeys\n",
			"sys/fs/cgroup/memory.stat": "anon\nanon x\n",
		}, 0, 0, avail},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := readMemory(tree(tt.files))
			if m.Total != 3884884<<10 || m.Available != avail || m.Own != 50<<20 {
				t.Errorf("machine: got %+v", m)
			}
			if most := m.most(); tt.limit == 0 && most != m.Total || tt.limit > 0 && most != tt.limit {
				t.Errorf("at most %d, with a limit of %d", most, tt.limit)
			}
			// What status, the page and /metrics show is what is admitted by.
			reg := newRegistry(nil)
			b := &backend{reg: reg, metrics: newMetrics(reg), root: tree(tt.files)}
			if got := b.Stats().MemAvailable; got != tt.budget {
				t.Errorf("shown as available: %d, want %d", got, tt.budget)
			}
			if m.Limit != tt.limit || m.Used != tt.used || m.budget() != tt.budget {
				t.Errorf("got limit %d, used %d, budget %d; want %d, %d, %d", m.Limit, m.Used, m.budget(), tt.limit, tt.used, tt.budget)
			}
		})
	}
}

// room is what is left for one more model.
func TestRoom(t *testing.T) {
	loaded := func(needs ...engine.Need) map[*takesTurns]engine.Need {
		m := map[*takesTurns]engine.Need{}
		for _, n := range needs {
			m[new(takesTurns)] = n
		}
		return m
	}
	tests := []struct {
		name   string
		limit  string
		loaded map[*takesTurns]engine.Need
		root   fstest.MapFS
		want   int64
	}{
		{"nothing loaded", "0", nil, tree(nil), avail},
		{"weights come out of the page cache", "0", loaded(engine.Need{Weights: 1 << 30}), tree(nil), avail - 1<<30},
		{"a context as far as it may still grow", "0", loaded(engine.Need{Weights: 1, KV: 80 << 20, Scratch: 20 << 20}), tree(nil), avail - 1 - 50<<20},
		{"a context that has grown already", "0", loaded(engine.Need{KV: 30 << 20, Scratch: 20 << 20}), tree(nil), avail},
		{"by configuration", "1G", nil, tree(nil), 1 << 30},
		{"by configuration, all of a model counts", "1G", loaded(engine.Need{Weights: 1 << 20, KV: 2 << 20, Scratch: 3 << 20}), tree(nil), 1<<30 - 6<<20},
		{"nothing left", "1M", loaded(engine.Need{Weights: 1 << 30}), tree(nil), 1},
		{"nobody says", "0", nil, fstest.MapFS{}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Engine.MemoryLimit = tt.limit
			l := newLoader(cfg, noPassphrase(), 1, new(pulse))
			l.loaded = tt.loaded
			if got := l.room(tt.root); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
