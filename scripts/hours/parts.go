// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// parts says what the anonymous memory of the daemon is, at this moment: by what Go's
// runtime tells of itself, and by mappings as the kernel has them, the largest first.
func (l *life) parts() (string, error) {
	list, err := figures()
	if err != nil {
		return "", err
	}
	var text strings.Builder
	text.WriteString("go")
	for _, name := range slices.Sorted(maps.Keys(list)) {
		short, ok := strings.CutPrefix(name, "go_memstats_")
		if ok {
			short, ok = strings.CutSuffix(short, "_bytes")
		}
		if ok {
			fmt.Fprintf(&text, " %s=%d", short, list[name]>>10)
		}
	}
	fmt.Fprintf(&text, " threads=%d gc=%d; maps", list["go_threads"], list["go_gc_duration_seconds_count"])
	f, err := os.Open("/proc/" + l.pid + "/smaps")
	if err != nil {
		return "", err
	}
	defer f.Close()
	kib, count, err := anonymous(f)
	if err != nil {
		return "", err
	}
	names := slices.SortedFunc(maps.Keys(kib), func(a, b string) int {
		return cmp.Or(cmp.Compare(kib[b], kib[a]), strings.Compare(a, b))
	})
	for _, name := range names {
		if kib[name] > 0 {
			fmt.Fprintf(&text, " %s=%d(%d)", name, kib[name], count[name])
		}
	}
	return text.String(), nil
}

// anonymous adds up what is anonymous of the mappings in a file as /proc/PID/smaps, in KiB,
// and how many mappings that are, by their names; what has none by the terabyte that it
// lies in: Go's heap is where no other mapping is.
func anonymous(smaps io.Reader) (kib, count map[string]int64, err error) {
	kib, count = map[string]int64{}, map[string]int64{}
	name := ""
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		line := lines.Text()
		fields := strings.Fields(line)
		if len(fields) >= 5 && strings.Contains(fields[0], "-") { // address perms offset dev inode [path]
			var from uint64
			if _, err := fmt.Sscanf(fields[0], "%x-", &from); err != nil {
				return nil, nil, fmt.Errorf("%q: %w", line, err)
			}
			if name = strings.Join(fields[5:], "_"); name == "" {
				name = fmt.Sprintf("%#x", from>>40)
			}
			count[name]++
		} else if len(fields) == 3 && fields[0] == "Anonymous:" {
			var n int64
			if _, err := fmt.Sscan(fields[1], &n); err != nil {
				return nil, nil, fmt.Errorf("%q: %w", line, err)
			}
			kib[name] += n
		}
	}
	return kib, count, nil
}
