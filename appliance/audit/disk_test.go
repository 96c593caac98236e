// SPDX-License-Identifier: Apache-2.0

package audit_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"windhover/appliance/audit"
	"windhover/appliance/disk"
	"windhover/internal/testdisk"
)

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
