// SPDX-License-Identifier: Apache-2.0

package audit_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"windhover/appliance/audit"
	"windhover/appliance/disk"
	"windhover/internal/testdisk"
)

const path = "/a/audit.jsonl"

// told is what a log said.
type told struct {
	mu   sync.Mutex
	list []audit.Notice
}

func (n *told) tell(x audit.Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, x)
}

func (n *told) count(event string) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, x := range n.list {
		if x.Event == event {
			count++
		}
	}
	return count
}

func (n *told) last(event string) (last audit.Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, x := range n.list {
		if x.Event == event {
			last = x
		}
	}
	return last
}

func request(i int) audit.Record {
	return audit.Record{Kind: audit.KindRequest, Client: "c", ID: fmt.Sprintf("r%d", i), Via: "mqtt", Op: "chat", Finish: "stop",
		Options: &audit.Options{Seed: "7", MaxTokens: 16}}
}

func begin(d disk.FS, change ...func(*audit.Config)) *audit.Log {
	c := audit.Config{Disk: d, Path: path, MaxSize: 1 << 20}
	for _, f := range change {
		f(&c)
	}
	return audit.Open(c, audit.Record{Kind: audit.KindStart, Program: "test"})
}

func end(t *testing.T, l *audit.Log) {
	t.Helper()
	if err := l.Close(context.Background(), audit.Record{Kind: audit.KindStop}); err != nil {
		t.Error(err)
	}
}

// write is a whole life: so many requests.
func write(t *testing.T, d disk.FS, n int, change ...func(*audit.Config)) {
	t.Helper()
	l := begin(d, change...)
	for i := range n {
		l.Append(request(i))
	}
	end(t, l)
}

// files are those that a person would name by audit.jsonl*.
func files(d *testdisk.Disk) (list []audit.File) {
	for _, name := range d.Names() {
		if data := d.Get(name); strings.HasPrefix(filepath.Base(name), "audit.jsonl") {
			list = append(list, audit.File{Name: filepath.Base(name), ReaderAt: bytes.NewReader(data), Size: int64(len(data))})
		}
	}
	return list
}

func verify(t *testing.T, list []audit.File, expect ...audit.Place) *audit.Report {
	t.Helper()
	r, err := audit.Verify(t.Context(), list, expect)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func hold(t *testing.T, d *testdisk.Disk, expect ...audit.Place) *audit.Report {
	t.Helper()
	r := verify(t, files(d), expect...)
	if !r.OK {
		t.Errorf("%v\n%s", r.Err(), d.Get(path))
	}
	return r
}

// chained holds text to the documented format, by nothing of the package.
func chained(t *testing.T, text []byte) (lines []map[string]any) {
	t.Helper()
	prev := strings.Repeat("0", 64)
	for i, raw := range bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")) {
		var l map[string]any
		if err := json.Unmarshal(raw, &l); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		if l["v"] != 1.0 || l["seq"] != float64(i+1) || l["prev"] != prev {
			t.Fatalf("line %d: %s, want prev %s", i+1, raw, prev)
		}
		if _, err := time.Parse(time.RFC3339Nano, l["time"].(string)); err != nil {
			t.Error(err)
		}
		prev = fmt.Sprintf("%x", sha256.Sum256(raw))
		lines = append(lines, l)
	}
	return lines
}
