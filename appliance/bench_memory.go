// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"
)

// BenchMemory is what the process had in memory while it measured the model: the
// most that was seen after a measurement, and the most there was at all.
type BenchMemory struct {
	RSS  float64 `json:"rss_mb"`      // resident, mapped weights included
	Peak float64 `json:"rss_peak_mb"` // the most at any time
	File float64 `json:"rss_file_mb"` // of RSS, pages of mapped files: the weights
	Anon float64 `json:"rss_anon_mb"` // of RSS, the process's own: KV cache, buffers, the program's heap
}

// resetPeakMemory makes the kernel forget the peak of before, when buffers for
// measuring the machine were there. It tells whether it did.
func resetPeakMemory() bool { return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) == nil }

// note looks what is in memory now.
func (m *BenchMemory) note() {
	now := memoryNow()
	if now.RSS > m.RSS {
		m.RSS, m.File, m.Anon = now.RSS, now.File, now.Anon
	}
}

// finish rounds the figures. Without a peak of its own time the peak is the most
// that was seen.
func (m *BenchMemory) finish(reset bool) {
	m.Peak = m.RSS
	if reset {
		m.Peak = max(m.Peak, memoryNow().Peak)
	}
	for _, f := range []*float64{&m.RSS, &m.Peak, &m.File, &m.Anon} {
		*f = round1(*f)
	}
}

// memoryNow reads /proc/self/status; zeros where there is none.
func memoryNow() BenchMemory {
	var m BenchMemory
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return m
	}
	fields := map[string]*float64{"VmRSS": &m.RSS, "VmHWM": &m.Peak, "RssFile": &m.File, "RssAnon": &m.Anon}
	for sc := bufio.NewScanner(bytes.NewReader(data)); sc.Scan(); {
		key, value, _ := strings.Cut(sc.Text(), ":")
		if f := fields[key]; f != nil {
			if kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64); err == nil {
				*f = kb * 1024 / 1e6
			}
		}
	}
	return m
}

func (b *bench) sayMemory() error {
	m := b.report.BenchMemory
	b.say("")
	b.say("memory   %.0f MB resident, %.0f MB of it the mapped file; %.0f MB at most", m.RSS, m.File, m.Peak)
	return nil
}
