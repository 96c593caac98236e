// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// row is an hour of the daemon. Of what goes up and down with the work, it is the
// least of the looks in that hour; what was counted is since the beginning.
type row struct {
	hour                       int
	rss, anon, heap            int64 // KiB
	runtime                    int64 // KiB of anon that Go's runtime says it holds
	cache                      int64 // KiB of anon that the cache of keys and values may take
	models                     int64 // names of model files in the state directory
	goroutines, files          int64
	state, inodes, journal     int64 // KiB without those, all its files, KiB
	written                    int64 // KiB that the daemon made the kernel write
	answered, refused, failed  int64
	restarts, reconnects, scan int64
}

const header = "# row hour rss_kib anon_kib heap_kib goroutines fds state_kib state_files journal_kib written_kib answered refused failed restarts reconnects looks runtime_kib models cache_kib"

func (r row) fields() []any {
	return []any{r.hour, r.rss, r.anon, r.heap, r.goroutines, r.files, r.state, r.inodes, r.journal, r.written, r.answered, r.refused, r.failed, r.restarts, r.reconnects, r.scan, r.runtime, r.models, r.cache}
}

func (r row) String() string {
	return "row " + strings.Trim(fmt.Sprint(r.fields()...), "[]")
}

func parseRow(line string) (row, error) {
	var r row
	n, err := fmt.Sscanf(line, "row"+strings.Repeat(" %d", len(r.fields())), &r.hour, &r.rss, &r.anon, &r.heap, &r.goroutines, &r.files, &r.state, &r.inodes,
		&r.journal, &r.written, &r.answered, &r.refused, &r.failed, &r.restarts, &r.reconnects, &r.scan, &r.runtime, &r.models, &r.cache)
	if err != nil {
		return row{}, fmt.Errorf("%q: %d numbers: %w", line, n, err)
	}
	return r, nil
}

// readLog finds the rows in what live printed, and how many lines say FAILED.
func readLog(file string) (rows []row, failures int, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	ended := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "row "):
			r, err := parseRow(line)
			if err != nil {
				return nil, 0, err
			}
			rows = append(rows, r)
		case strings.HasPrefix(line, "FAILED"):
			failures++
		case strings.HasPrefix(line, "end "):
			ended = true
		}
	}
	if !ended {
		return nil, 0, fmt.Errorf("%s: it did not come to its end", file)
	}
	return rows, failures, nil
}
