// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"windhover/control"
	"windhover/kernels"
)

// backend is the appliance as package control sees it.
type backend struct {
	who     *authority
	cfg     Config                 // of the start
	live    atomic.Pointer[Config] // see now; nil: cfg
	reg     *registry
	topo    kernels.Topology
	log     *slog.Logger
	metrics *metrics
	self    []string // how to run this program as a child
	started time.Time
	wake    chan struct{} // wakes the drop directory's watcher
	pulse   *pulse
	heat    *heat           // nil: nobody watches
	audit   *auditor        // nil: no record is kept
	updates *updater        // nil: what is remembered of them cannot be read
	duties  map[string]duty // by job type
	submit  func(client, typ, id string, params []byte) (control.JobRecord, error)
	built   chan struct{} // closed when all parts are there; nil: they are
	root    fs.FS         // has /proc and the control groups; nil: that of this machine
}

var (
	_ control.Backend       = (*backend)(nil)
	_ control.PatientRunner = (*backend)(nil)
)

func (b *backend) wakeDrop() {
	select {
	case b.wake <- struct{}{}:
	default: // it is going to look anyway
	}
}

// Models returns the document of each model.
func (b *backend) Models() []control.Model { return b.reg.list() }

// Info describes the machine.
func (b *backend) Info() control.Info {
	mem := b.memory()
	disk, _ := diskSize(b.cfg.Paths.State)
	return control.Info{
		Version: Version, Board: board(), Arch: runtime.GOARCH, Kernels: kernelList(),
		Cores:    control.Cores{Big: list(b.topo.Big), Little: list(b.topo.Little)},
		RAMBytes: mem.Total, DiskBytes: disk, Features: kernels.Features(), LogPrompts: b.cfg.Log.Prompts,
		TrustKeys: b.trusted(),
	}
}

// trusted names the keys whose signatures count, of files and of documents.
func (b *backend) trusted() []string {
	keys := b.who.fingerprints()
	if b.updates != nil {
		keys = append(keys, b.updates.fingerprints()...)
	}
	return keys
}

// list is [] in a document, not null, where there is nothing.
func list(cpus []int) []int { return append([]int{}, cpus...) }

// memory is what there is for the daemon now.
func (b *backend) memory() memoryInfo {
	if b.root != nil {
		return readMemory(b.root)
	}
	return readMemory(os.DirFS("/"))
}

// Stats are the numbers of the moment.
func (b *backend) Stats() control.Stats {
	free, _ := freeSpace(b.cfg.Paths.State)
	s := control.Stats{
		UptimeS: int64(time.Since(b.started).Seconds()), RSSBytes: residentBytes(),
		MemAvailable: b.memory().budget(), DiskFree: free,
	}
	for _, m := range b.reg.current() {
		if busy, ok := m.servable.(activeModel); ok {
			a := busy.Activity()
			s.Sequences += a.Active
			s.KeptTokens += a.Kept
			s.CachedTokens += a.Cached
		}
		b.reg.release(m)
	}
	b.audit.stats(&s)
	b.heat.stats(&s, time.Now())
	if d := b.metrics.last.Load(); d != nil {
		s.DecodeTokS, s.PrefillTokS = d.Decode, d.Prefill
	}
	return s
}

// kernelList is "operation: implementation" for every operation.
func kernelList() []string {
	var list []string
	for _, s := range kernels.Selected() {
		list = append(list, s.Op+": "+s.Impl)
	}
	return list
}

// kernelSummary names each implementation once, with how many operations run on it.
func kernelSummary() string { return summaryOf(kernels.Selected()) }

func summaryOf(selected []kernels.Selection) string {
	count := map[string]int{}
	var order []string
	for _, s := range selected {
		if count[s.Impl] == 0 {
			order = append(order, s.Impl)
		}
		count[s.Impl]++
	}
	for i, impl := range order {
		order[i] = fmt.Sprintf("%s (%s)", impl, several(count[impl], "operation"))
	}
	return strings.Join(order, ", ")
}

// board is the name of the machine as firmware tells it.
func board() string {
	for _, path := range []string{"/proc/device-tree/model", "/sys/class/dmi/id/product_name"} {
		if data, err := os.ReadFile(path); err == nil {
			if s := strings.TrimSpace(strings.TrimRight(string(data), "\x00")); s != "" {
				return s
			}
		}
	}
	return "unknown"
}

func residentBytes() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(data))
	if len(f) < 2 {
		return 0
	}
	n, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return 0
	}
	return n * int64(os.Getpagesize())
}
