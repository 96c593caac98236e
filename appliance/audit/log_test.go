// SPDX-License-Identifier: Apache-2.0

package audit_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"windhover/appliance/audit"
	"windhover/internal/testdisk"
)

// Lives follow on each other in one chain, as its description has it.
func TestChain(t *testing.T) {
	d := new(testdisk.Disk)
	write(t, d, 3)
	write(t, d, 2)
	var kinds []string
	lines := chained(t, d.Get(path))
	for _, l := range lines {
		kinds = append(kinds, l["kind"].(string))
	}
	if got := strings.Join(kinds, " "); got != "start request request request stop start request request stop" {
		t.Errorf("kinds %s", got)
	}
	if o := lines[1]["options"].(map[string]any); o["seed"] != "7" || o["max_tokens"] != 16.0 {
		t.Errorf("options %v", o)
	}
	r := hold(t, d)
	if r.Records != 9 || r.Starts != 2 || r.Unclean != 0 || r.Gaps+r.Repairs+r.Back != 0 || r.First != 1 || r.Last.Seq != 9 {
		t.Errorf("report %+v", r)
	}
	if m := d.Mode(path); m != 0o640 {
		t.Errorf("mode %v", m)
	}
}

// A full file gets the number of its first record, the chain goes on in a new one, and
// keep takes the oldest away, which the chain says.
func TestRotation(t *testing.T) {
	d, n := new(testdisk.Disk), new(told)
	small := func(c *audit.Config) { c.MaxSize, c.Tell = 2000, n.tell }
	write(t, d, 40, small)
	all := d.Names()
	if len(all) < 4 || n.count(audit.NoticeRotated) != len(all)-1 {
		t.Fatalf("files %v, %d rotations told", all, n.count(audit.NoticeRotated))
	}
	var text []byte
	for _, name := range append(all[1:], all[0]) { // the one that is written to sorts first
		if size := len(d.Get(name)); size > 2000 {
			t.Errorf("%s has %d bytes", name, size)
		}
		text = append(text, d.Get(name)...)
	}
	chained(t, text)
	if r := hold(t, d); r.Files[len(r.Files)-1] != "audit.jsonl" || r.First != 1 {
		t.Errorf("report %+v", r)
	}
	write(t, d, 40, small, func(c *audit.Config) { c.Keep = 2 })
	r := hold(t, d)
	if names := d.Names(); len(names) > 4 || r.First == 1 || !bytes.Contains(text, d.Get(names[1])[:20]) == (r.First < 40) {
		t.Errorf("kept %v from record %d on", names, r.First)
	}
	if got := string(d.Get(path)); !strings.Contains(got, `"removed":["audit.jsonl.0000000`) {
		t.Errorf("nothing says what was removed: %s", got)
	}
	// Between two of its files the chain does not break, without one of them it does.
	list := files(d)
	if r := verify(t, append(list[:1:1], list[2:]...)); r.OK && len(list) > 3 {
		t.Errorf("a file is missing: %+v", r)
	}
}

// Times are told as the clock has them; numbers order the records.
func TestClockGoesBack(t *testing.T) {
	d := new(testdisk.Disk)
	var mu sync.Mutex
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	l := begin(d, func(c *audit.Config) {
		c.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	})
	for i, at := range []time.Time{now, time.Unix(0, 0), now.Add(time.Hour), now} {
		mu.Lock()
		now = at
		mu.Unlock()
		l.Append(request(i))
	}
	end(t, l)
	r := hold(t, d)
	if lines := chained(t, d.Get(path)); r.Back != 2 || lines[2]["time"] != "1970-01-01T00:00:00.000Z" || lines[2]["id"] != "r1" {
		t.Errorf("%d times back: %v", r.Back, lines[2])
	}
}

// What is no file of ours is left alone, waited for by nobody, and said.
func TestOnlyARegularFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	other := at("other")
	err := errors.Join(os.WriteFile(other, nil, 0o600), os.Symlink(other, at("link")), syscall.Mkfifo(at("pipe"), 0o600), os.Mkdir(at("dir"), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "pipe", "dir", "none/audit.jsonl", "other/audit.jsonl"} {
		l := audit.Open(audit.Config{Path: at(name), MaxSize: 1 << 20}, audit.Record{Kind: audit.KindStart})
		if l.State().Err == nil || l.Ready() == nil {
			t.Errorf("%s was opened", name)
		}
		if err := l.Close(t.Context(), audit.Record{Kind: audit.KindStop}); err == nil {
			t.Errorf("%s: the end says nothing", name)
		}
	}
	if data, err := os.ReadFile(other); err != nil || len(data) > 0 {
		t.Errorf("behind the link stands %q, %v", data, err)
	}
	// On a real disk, with a umask that takes from the mode.
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	l := audit.Open(audit.Config{Path: at("audit.jsonl"), MaxSize: 2000}, audit.Record{Kind: audit.KindStart})
	for i := range 30 {
		l.Append(request(i))
	}
	end(t, l)
	found, err := filepath.Glob(at("audit.jsonl*"))
	if err != nil || len(found) < 3 {
		t.Fatalf("%v, %v", found, err)
	}
	for _, name := range found {
		if fi, err := os.Stat(name); err != nil || fi.Mode() != 0o640 {
			t.Errorf("%s: %v, %v", name, fi.Mode(), err)
		}
	}
}

// A file of a later program is left as it is.
func TestLaterFormat(t *testing.T) {
	d := new(testdisk.Disk)
	text := []byte(`{"v":2,"seq":1,"when":"later"}` + "\n")
	d.Put(path, text, 0o640)
	l := begin(d)
	if err := l.State().Err; err == nil || !strings.Contains(err.Error(), "format 2") {
		t.Errorf("%v", err)
	}
	if err := l.Close(t.Context(), audit.Record{Kind: audit.KindStop}); err == nil {
		t.Error("the end says nothing")
	}
	if names := d.Names(); len(names) != 1 || !bytes.Equal(d.Get(path), text) {
		t.Errorf("left %v, %s", names, d.Get(path))
	}
	if r := verify(t, files(d)); r.OK || !strings.Contains(r.Broken.Reason, "format 2") {
		t.Errorf("%+v", r.Broken)
	}
}

// Records of many at once are all there, those of one in its order.
func TestManyAtOnce(t *testing.T) {
	d := new(testdisk.Disk)
	l := begin(d, func(c *audit.Config) { c.SyncEach, c.MaxSize = true, 5000 })
	var wg sync.WaitGroup
	for who := range 8 {
		wg.Go(func() {
			for i := range 50 {
				r := request(i)
				r.Client = fmt.Sprint("c", who)
				if i%10 == 9 {
					l.Settle(r)
				} else {
					l.Append(r)
				}
			}
		})
	}
	wg.Wait()
	end(t, l)
	if r := hold(t, d); r.Lost > 0 || r.Back > 0 {
		t.Errorf("report %+v", r)
	}
	seen := map[string]int{}
	names := d.Names()
	var text []byte
	for _, name := range append(names[1:], names[0]) {
		text = append(text, d.Get(name)...)
	}
	for _, line := range chained(t, text) {
		if who, ok := line["client"].(string); ok {
			if want := fmt.Sprint("r", seen[who]); line["id"] != want {
				t.Errorf("%s of %s, want %s", line["id"], who, want)
			}
			seen[who]++
		}
	}
	if len(seen) != 8 || seen["c3"] != 50 {
		t.Errorf("seen %v", seen)
	}
}

// Texts of clients cannot fill a disk, nor end a line.
func TestHostileTexts(t *testing.T) {
	d := new(testdisk.Disk)
	l := begin(d)
	r := request(0)
	r.Client, r.ID, r.Op = strings.Repeat("x", 1<<20), "a\n{\"v\":1}\x00\xff\u2028", `","kind":"stop`
	l.Append(r)
	end(t, l)
	if lines := chained(t, d.Get(path)); len(lines) != 3 || len(lines[1]["client"].(string)) != 256 || lines[1]["op"] != `","kind":"stop` || lines[1]["kind"] != "request" {
		t.Errorf("%v", lines)
	}
	hold(t, d)
}
