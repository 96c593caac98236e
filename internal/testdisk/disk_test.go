// SPDX-License-Identifier: Apache-2.0

package testdisk_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"

	"windhover/appliance/disk"
	"windhover/internal/testdisk"
)

// The disk in memory behaves as the one of this machine, as far as a program that
// nobody interrupts can tell.
func TestAsTheRealOne(t *testing.T) {
	real, memory := t.TempDir(), "/state"
	for name, c := range map[string]struct {
		d   disk.FS
		dir string
	}{"real": {disk.OS{}, real}, "memory": {&testdisk.Disk{}, memory}, "counted": {&testdisk.Faults{FS: &testdisk.Disk{}}, memory}} {
		t.Run(name, func(t *testing.T) {
			d, at := c.d, func(name string) string { return filepath.Join(c.dir, name) }
			if _, err := d.Open(at("a"), false); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("no file: %v", err)
			}
			f, err := d.Create(at("a"), 0o600)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.Create(at("a"), 0o600); !errors.Is(err, fs.ErrExist) {
				t.Errorf("created twice: %v", err)
			}
			if err := f.Allocate(10); err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt([]byte("hello"), 8); err != nil {
				t.Fatal(err)
			}
			if n, err := f.Size(); n != 13 || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
			if err := f.Allocate(12); err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 8)
			if n, err := f.ReadAt(buf, 6); n != 6 || err != io.EOF || string(buf[:n]) != "\x00\x00hell" {
				t.Errorf("read %q, %v", buf[:n], err)
			}
			if err := errors.Join(f.Chmod(0o440), f.Sync(), f.Close(), d.SyncDir(c.dir)); err != nil {
				t.Fatal(err)
			}
			if err := d.RenameNew(at("a"), at("b")); err != nil {
				t.Fatal(err)
			}
			if err := disk.Replace(d, at("c"), []byte("new"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := d.RenameNew(at("c"), at("b")); !errors.Is(err, fs.ErrExist) {
				t.Errorf("a name that is taken: %v", err)
			}
			if err := d.Rename(at("c"), at("b")); err != nil {
				t.Fatal(err)
			}
			if err := d.Rename(at("c"), at("b")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a file that is not there: %v", err)
			}
			if got, err := disk.ReadFile(d, at("b"), 3); string(got) != "new" || err != nil {
				t.Errorf("read %q, %v", got, err)
			}
			if _, err := disk.ReadFile(d, at("b"), 2); err == nil {
				t.Error("a file that is too long was read")
			}
			if names, err := d.List(c.dir); !slices.Equal(names, []string{"b"}) || err != nil {
				t.Errorf("names %v, %v", names, err)
			}
			if err := errors.Join(d.Remove(at("b")), d.Remove(at("b"))); err != nil {
				t.Errorf("removed twice: %v", err)
			}
			if free, total, err := d.Space(c.dir); free <= 0 || total < free || err != nil {
				t.Errorf("%d of %d bytes free, %v", free, total, err)
			}
		})
	}
}

func TestPowerCut(t *testing.T) {
	d := &testdisk.Disk{}
	d.Put("/s/old", []byte("old"), 0o600)
	f, err := d.Create("/s/new", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("text"), 0); err != nil {
		t.Fatal(err)
	}
	if err := d.Rename("/s/old", "/s/older"); err != nil {
		t.Fatal(err)
	}
	d.Restart(testdisk.Nothing, 0)
	if got := d.Names(); !slices.Equal(got, []string{"/s/new", "/s/older"}) {
		t.Errorf("after a kill: %v", got)
	}
	if err := d.SyncDir("/s"); err != nil {
		t.Fatal(err)
	}
	d.Restart(testdisk.Everything, 0)
	if got := d.Names(); !slices.Equal(got, []string{"/s/new", "/s/older"}) || len(d.Get("/s/new")) != 0 {
		t.Errorf("names are synced, the text is not: %v, %q", got, d.Get("/s/new"))
	}
	if err := d.Remove("/s/older"); err != nil {
		t.Fatal(err)
	}
	d.Restart(testdisk.Everything, 0)
	if string(d.Get("/s/older")) != "old" {
		t.Error("a name that was taken away without a sync did not come back")
	}
}

// A file that is replaced is the old one or the new one, whatever happens when, and
// the next try succeeds.
func TestReplaceAtAnyMoment(t *testing.T) {
	var count testdisk.Faults
	count.FS = &testdisk.Disk{}
	if err := disk.Replace(&count, "/s/f", []byte("new content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if count.Changes < 5 {
		t.Fatalf("only %d changes", count.Changes)
	}
	for x := range testdisk.Trials(count.Changes, false) {
		d := &testdisk.Disk{}
		d.Put("/s/f", []byte("old"), 0o600)
		f := &testdisk.Faults{FS: d, At: x.At, Kind: x.Kind}
		var err error
		whole := testdisk.Survive(func() { err = disk.Replace(f, "/s/f", []byte("new content"), 0o600) })
		name := fmt.Sprintf("%v at %s", x.Kind, f.Last)
		if whole == x.Kind.Ends() {
			t.Fatalf("%s: came to its end: %v", name, whole)
		}
		d.Restart(x.Loss, uint64(x.At))
		got := string(d.Get("/s/f"))
		if got != "old" && got != "new content" || whole && err == nil && got != "new content" {
			t.Errorf("%s: %q, error %v", name, got, err)
		}
		if err := disk.Replace(d, "/s/f", []byte("next"), 0o600); err != nil {
			t.Errorf("%s: the next try: %v", name, err)
		}
		if got := d.Names(); !slices.Equal(got, []string{"/s/f"}) {
			t.Errorf("%s: left %v", name, got)
		}
	}
}

// A disk without room is one for everything that needs some, and says so.
func TestCapacity(t *testing.T) {
	d := &testdisk.Disk{Capacity: 10}
	f, err := d.Create("/s/f", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Allocate(8); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 8), 4); !disk.Full(err) {
		t.Errorf("12 bytes on a disk of 10: %v", err)
	}
	if free, total, err := d.Space("/s"); free != 2 || total != 10 || err != nil {
		t.Errorf("%d of %d bytes free, %v", free, total, err)
	}
}
