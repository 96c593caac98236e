// SPDX-License-Identifier: Apache-2.0

package audit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"windhover/appliance/audit"
	"windhover/appliance/disk"
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

// Wherever the power cut ends the file, what is whole stays, what is not stays aside, and
// the chain says so.
func TestTornTail(t *testing.T) {
	whole := new(testdisk.Disk)
	write(t, whole, 3)
	text := whole.Get(path)
	for cut := range len(text) {
		for _, tail := range []string{"", "\x00\x00\x00\x00", "{\"v\":1,\n"} {
			d, n := new(testdisk.Disk), new(told)
			left := append(bytes.Clone(text[:cut]), tail...)
			d.Put(path, left, 0o640)
			write(t, d, 1, func(c *audit.Config) { c.Tell = n.tell })
			r := hold(t, d)
			good := bytes.LastIndexByte(text[:cut], '\n') + 1
			want := min(len(left)-good, 1)
			if r.Repairs != want || n.count(audit.NoticeRepair) != want {
				t.Fatalf("cut at %d, %q: %d repairs, %d told, want %d", cut, tail, r.Repairs, n.count(audit.NoticeRepair), want)
			}
			if want == 0 {
				continue
			}
			if note := r.Notes[0]; note.Bytes != int64(len(left)-good) || note.Offset != int64(good) || !bytes.Equal(d.Get("/a/"+note.File), left) {
				t.Fatalf("cut at %d: %+v of %v", cut, note, d.Names())
			}
		}
	}
}

// What the torn file holds behind its good lines cannot be changed either.
func TestRepairHoldsWhatItNames(t *testing.T) {
	d := new(testdisk.Disk)
	write(t, d, 3)
	text := d.Get(path)
	d.Put(path, text[:len(text)-20], 0o640)
	write(t, d, 1)
	list := files(d)
	torn := bytes.Clone(text[:len(text)-20])
	torn[len(torn)-1] ^= 1
	for i := range list {
		if list[i].Name != "audit.jsonl" {
			list[i].ReaderAt = bytes.NewReader(torn)
		}
	}
	if r := verify(t, list); r.OK || r.Broken.Line != 5 || r.Broken.File == "audit.jsonl" {
		t.Errorf("%+v", r.Broken)
	}
}

// The crash matrix: at any change of the disk, in any way. What was said to be on the
// disk is in the chain afterwards, and the chain holds.
func TestCrashMatrix(t *testing.T) {
	life := func(d disk.FS, each bool, n *told) (safe audit.Place) {
		var l *audit.Log
		ended := make(chan struct{})
		go func() { // which a fault may end
			defer close(ended)
			l = begin(d, func(c *audit.Config) { c.MaxSize, c.SyncEach, c.Keep, c.Tell = 1500, each, 3, n.tell })
		}()
		<-ended
		if l == nil {
			return safe
		}
		for i := range 12 {
			l.Settle(request(i))
		}
		_ = l.Close(context.Background(), audit.Record{Kind: audit.KindStop}) // a disk that is full stays so
		return l.State().Synced
	}
	for _, each := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			base := func() *testdisk.Disk {
				d := new(testdisk.Disk)
				write(t, d, 3, func(c *audit.Config) { c.MaxSize = 1500 })
				return d
			}
			count := &testdisk.Faults{FS: base()}
			life(count, each, new(told))
			if count.Changes < 20 {
				t.Fatalf("only %d changes", count.Changes)
			}
			trials := 0
			for x := range testdisk.Trials(count.Changes, testing.Short()) {
				trials++
				d := base()
				faults := &testdisk.Faults{FS: d, At: x.At, Kind: x.Kind, End: goexit}
				safe := life(faults, each, new(told))
				trial := fmt.Sprintf("%v at %s, loss %d, synced %d", x.Kind, faults.Last, x.Loss, safe.Seq)
				d.Restart(x.Loss, uint64(x.At))
				n := new(told)
				write(t, d, 2, func(c *audit.Config) { c.MaxSize, c.Tell = 1500, n.tell })
				var expect []audit.Place
				if r := verify(t, files(d)); safe.Seq >= r.First { // keep may have taken the file since
					expect = append(expect, safe)
				}
				r := verify(t, files(d), expect...)
				if !r.OK {
					t.Fatalf("%s: %v", trial, r.Err())
				}
				if r.Repairs != n.count(audit.NoticeRepair) && x.Kind.Ends() {
					t.Errorf("%s: %d repairs in the chain, %d told", trial, r.Repairs, n.count(audit.NoticeRepair))
				}
			}
			t.Logf("%d changes, %d trials", count.Changes, trials)
		})
	}
}

// A full disk costs records, which are counted, and no more: when there is room again the
// chain goes on and says how many are missing.
func TestDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, n := &testdisk.Disk{Capacity: 1000}, new(told)
		l := begin(d, func(c *audit.Config) { c.Tell = n.tell })
		for i := range 3000 {
			l.Append(request(i))
			if i%100 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		s := l.State()
		if s.Err == nil || !disk.Full(s.Err) || l.Ready() == nil || s.Lost == 0 || n.count(audit.NoticeFailed) != 1 {
			t.Fatalf("state %+v, %d failures told", s, n.count(audit.NoticeFailed))
		}
		// What is there is good, and what was written is on the disk.
		if r := hold(t, d, s.Synced); r.Last.Seq < 2 || r.Unfinished != 0 && r.Unfinished > 600 {
			t.Errorf("report %+v", r)
		}
		d.Resize(0)
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if err := l.Ready(); err != nil {
			t.Error(err)
		}
		end(t, l)
		r := hold(t, d, s.Synced)
		if r.Gaps != 1 || r.Lost != s.Lost || r.Records+r.Lost != 1+3000+1+1 {
			t.Errorf("%d records, %d gaps of %d, want %d lost", r.Records, r.Gaps, r.Lost, s.Lost)
		}
		if w := n.last(audit.NoticeWorks); w.Lost != s.Lost {
			t.Errorf("told of %d", w.Lost)
		}
	})
}

// Records are on the disk a few seconds later, or, where each is synced, when Settle
// returns. Until then no place is said to be.
func TestSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(testdisk.Disk)
		l := begin(d)
		l.Settle(request(1))
		synctest.Wait()
		if s := l.State(); s.Synced.Seq != 0 {
			t.Errorf("synced at once: %v", s.Synced)
		}
		time.Sleep(audit.SyncInterval + time.Millisecond)
		synctest.Wait()
		if s := l.State(); s.Synced.Seq != 2 {
			t.Errorf("synced after a while: %v", s.Synced)
		}
		l.Append(request(2))
		synctest.Wait()
		d.Restart(testdisk.Everything, 0) // Close writes to a file that is no more
		if r := hold(t, d, l.State().Synced); r.Records != 2 {
			t.Errorf("%d records after a power cut", r.Records)
		}
		end(t, l)

		d = new(testdisk.Disk)
		l = begin(d, func(c *audit.Config) { c.SyncEach = true })
		l.Settle(request(1))
		d.Restart(testdisk.Everything, 0)
		if r := hold(t, d, l.State().Synced); r.Records != 2 {
			t.Errorf("%d records after a power cut, each synced", r.Records)
		}
		end(t, l)
	})
}

// stuck is a disk that hangs in its writes until told to go on.
type stuck struct {
	disk.FS
	gate chan struct{}
}

type stuckFile struct {
	disk.File
	gate chan struct{}
}

func (s stuck) Create(path string, mode fs.FileMode) (disk.File, error) {
	f, err := s.FS.Create(path, mode)
	return stuckFile{f, s.gate}, err
}

func (f stuckFile) WriteAt(p []byte, off int64) (int, error) {
	<-f.gate
	return f.File.WriteAt(p, off)
}

// Nobody waits for a disk that hangs: Append never, Settle some seconds.
func TestHangingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, gate := new(testdisk.Disk), make(chan struct{}, 1)
		gate <- struct{}{} // the start
		l := begin(stuck{d, gate}, func(c *audit.Config) { c.SyncEach = true })
		before := time.Now()
		l.Append(request(0))
		synctest.Wait() // the disk has it and hangs
		for i := range 1999 {
			l.Append(request(1 + i))
		}
		if time.Since(before) != 0 || l.Ready() == nil {
			t.Errorf("Append waited %v, ready: %v", time.Since(before), l.Ready())
		}
		l.Settle(request(2000))
		if waited := time.Since(before); waited > 6*time.Second {
			t.Errorf("Settle waited %v", waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Close(ctx, audit.Record{Kind: audit.KindStop}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v", err)
		}
		close(gate)
		end(t, l)
		r := hold(t, d)
		if r.Gaps == 0 || r.Records+r.Lost < 2000 {
			t.Errorf("%d records, %d gaps of %d", r.Records, r.Gaps, r.Lost)
		}
	})
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

// A last line that is whole but for some bytes in its middle, as a lost page leaves it, is
// none; one before it is vouched for by the next.
func TestHolesInTheTail(t *testing.T) {
	whole := new(testdisk.Disk)
	write(t, whole, 3)
	text := whole.Get(path)
	last := bytes.LastIndexByte(text[:len(text)-1], '\n') + 1
	for at := last; at < len(text); at++ {
		d := new(testdisk.Disk)
		torn := bytes.Clone(text)
		torn[at] = 0
		d.Put(path, torn, 0o640)
		write(t, d, 1)
		if r := hold(t, d); r.Repairs != 1 || r.Notes[0].Offset != int64(last) {
			t.Fatalf("a hole at %d: %+v", at, r.Notes)
		}
	}
}

// A file that somebody takes away while it is written is noticed: the chain goes on behind
// what it holds, and says so. One that somebody cuts shows in the chain.
func TestTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		at, away := filepath.Join(dir, "audit.jsonl"), filepath.Join(dir, "away")
		n := new(told)
		l := audit.Open(audit.Config{Path: at, MaxSize: 1 << 20, SyncEach: true, Tell: n.tell}, audit.Record{Kind: audit.KindStart})
		l.Settle(request(1))
		if err := os.Rename(at, away); err != nil {
			t.Fatal(err)
		}
		l.Settle(request(2)) // into the file that is gone
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if l.Settle(request(3)); l.Ready() != nil || n.count(audit.NoticeFailed) != 1 || n.count(audit.NoticeRepair) != 1 {
			t.Errorf("%v, %+v", l.Ready(), n.list)
		}
		read := func(name string) audit.File {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			return file(filepath.Base(name), data)
		}
		if r := verify(t, []audit.File{read(at), read(away)}); !r.OK || r.Repairs != 1 || r.Records != 5 || r.First != 1 {
			t.Errorf("with the file that was taken away: %+v, %v", r, r.Err())
		}
		if r := verify(t, []audit.File{read(at)}); !r.OK || r.First != 4 || r.Repairs != 1 {
			t.Errorf("without it: %+v, %v", r, r.Err())
		}
		if err := os.Truncate(at, read(at).Size-5); err != nil { // into the last line
			t.Fatal(err)
		}
		l.Settle(request(4))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if err := l.Ready(); err != nil {
			t.Error(err)
		}
		end(t, l)
		if r := verify(t, []audit.File{read(away), read(at)}); r.OK && r.Repairs < 2 {
			t.Errorf("a file that was cut: %+v", r)
		}
	})
}
