// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// look measures the daemon, and keeps the least of this hour.
func (l *life) look() {
	r, err := l.measure()
	if err != nil {
		l.tell("look", err)
		return
	}
	l.tell("look", nil)
	if l.least == nil {
		l.least = &r
	}
	b := l.least
	for _, p := range []struct {
		to *int64
		is int64
	}{{&b.rss, r.rss}, {&b.anon, r.anon}, {&b.heap, r.heap}, {&b.goroutines, r.goroutines}, {&b.files, r.files}, {&b.state, r.state}, {&b.inodes, r.inodes}, {&b.runtime, r.runtime}, {&b.models, r.models}, {&b.cache, r.cache}} {
		*p.to = min(*p.to, p.is)
	}
	b.written, b.journal, b.reconnects = r.written, r.journal, r.reconnects
	b.scan++
}

// row is the hour that ends.
func (l *life) row(hour int) row {
	var r row
	if l.least != nil {
		r, l.least = *l.least, nil
	}
	r.hour, r.answered, r.refused, r.failed = hour, l.answered.Load(), l.refused.Load(), l.failed.Load()
	n, err := shown("NRestarts")
	if err == nil {
		r.restarts, err = strconv.ParseInt(n, 10, 64)
	}
	if pid, e := shown("MainPID"); err == nil && (e != nil || pid != l.pid) {
		err = fmt.Errorf("process %s, and %s before (%v)", pid, l.pid, e)
	}
	if err != nil {
		l.tell("row", err)
	}
	return r
}

func (l *life) measure() (row, error) {
	var r row
	status, err := pairs("/proc/" + l.pid + "/status")
	if err != nil {
		return r, err
	}
	io, err := pairs("/proc/" + l.pid + "/io")
	if err != nil {
		return r, err
	}
	list, err := figures()
	if err != nil {
		return r, err
	}
	open, err := os.ReadDir("/proc/" + l.pid + "/fd")
	if err != nil {
		return r, err
	}
	r.rss, r.anon, r.written = status["VmRSS"], status["RssAnon"], io["write_bytes"]>>10
	r.heap, r.goroutines, r.files = list["go_memstats_heap_alloc_bytes"]>>10, list["go_goroutines"], int64(len(open))
	r.runtime = (list["go_memstats_sys_bytes"] - list["go_memstats_heap_released_bytes"]) >> 10
	r.cache = list["windhover_kv_cache_bytes"] >> 10
	r.reconnects = list["windhover_mqtt_reconnects_total"]
	for _, dir := range []string{"/var/lib/windhover", "/var/cache/windhover"} {
		s, err := sizeOf(dir)
		if err != nil {
			return r, err
		}
		r.state, r.inodes, r.models = r.state+s.kib, r.inodes+s.files, r.models+s.models
	}
	journal, err := sizeOf("/var/log/journal")
	r.journal = journal.kib
	if r.rss == 0 || r.anon == 0 || r.heap == 0 || r.goroutines == 0 || r.inodes == 0 || r.cache == 0 {
		err = errors.Join(err, fmt.Errorf("nothing measured: %+v", r))
	}
	return r, err
}

// pairs are the numbers in a file of lines "name: number".
func pairs(file string) (map[string]int64, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list := map[string]int64{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value, _, _ = strings.Cut(strings.TrimSpace(value), " ")
		if v, err := strconv.ParseInt(value, 10, 64); err == nil {
			list[name] = v
		}
	}
	return list, lines.Err()
}

// size is what lies in a directory. How large models are is a matter of which ones were
// installed last: they are counted alone.
type size struct {
	files, models int64
	kib           int64 // that all but models take on the disk
}

func sizeOf(dir string) (s size, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				s.files++
				if strings.HasSuffix(path, ".vqf") {
					s.models++
				} else {
					s.kib += info.Sys().(*syscall.Stat_t).Blocks / 2
				}
				return nil
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went meanwhile
		}
		return err
	})
	return s, err
}

// expected are the errors that the journal has to have, by parts of their text.
var expected = []string{
	"model=damaged code=digest_mismatch",
}

// readJournal wants no error in the journal of this process but those.
func (l *life) readJournal() {
	out, err := exec.Command("journalctl", "-q", "-b", "_PID="+l.pid, "-p", "err", "-o", "cat", "--no-pager").Output()
	if err != nil {
		l.tell("journal", err)
		return
	}
lines:
	for line := range strings.Lines(string(out)) {
		for _, e := range expected {
			if strings.Contains(line, e) {
				continue lines
			}
		}
		l.tell("journal", errors.New(strings.TrimSpace(line)))
	}
}
