// SPDX-License-Identifier: Apache-2.0

package audit_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"windhover/appliance/audit"
	"windhover/appliance/disk"
	"windhover/internal/testdisk"
)

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
