// SPDX-License-Identifier: Apache-2.0

package disk_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"windhover/appliance/disk"
	"windhover/internal/testdisk"
)

// The disk of this machine and the one that tests cut do the same, so that what holds
// on the one holds on the other.
func TestBothDisksDoTheSame(t *testing.T) {
	for _, tt := range []struct {
		name string
		d    disk.FS
		dir  string
	}{{"machine", disk.OS{}, t.TempDir()}, {"test", &testdisk.Disk{Capacity: 1 << 20}, "/s"}} {
		t.Run(tt.name, func(t *testing.T) {
			d := tt.d
			at := func(name string) string { return filepath.Join(tt.dir, name) }
			is := func(what string, err, want error) {
				t.Helper()
				if !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", what, err, want)
				}
			}
			names := func(want ...string) {
				t.Helper()
				got, err := d.List(tt.dir)
				slices.Sort(got)
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("names %v, %v, want %v", got, err, want)
				}
			}
			holds := func(name, want string) {
				t.Helper()
				if got, err := disk.ReadFile(d, at(name), 100); err != nil || string(got) != want {
					t.Errorf("%s holds %q, %v, want %q", name, got, err, want)
				}
			}

			f, err := d.Create(at("a"), 0o600)
			if err != nil {
				t.Fatal(err)
			}
			_, err = d.Create(at("a"), 0o600)
			is("made twice", err, fs.ErrExist)
			is("room", f.Allocate(8), nil)
			_, err = f.WriteAt([]byte("first"), 0)
			is("writing", errors.Join(err, f.Sync(), f.Chmod(0o640), f.Close()), nil)
			holds("a", "first\x00\x00\x00")
			f, err = d.Open(at("a"), true)
			if err != nil {
				t.Fatal(err)
			}
			is("cutting off", errors.Join(f.Truncate(2), f.Sync(), f.Close()), nil)
			holds("a", "fi")
			f, err = d.Open(at("a"), true)
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.WriteAt([]byte("rst\x00\x00\x00"), 2)
			is("writing on", errors.Join(err, f.Sync(), f.Close()), nil)
			_, err = disk.ReadFile(d, at("a"), 7)
			is("more than the limit", err, syscall.EFBIG)
			_, err = d.Open(at("none"), false)
			is("opening what is not there", err, fs.ErrNotExist)

			is("replacing", disk.Replace(d, at("b"), []byte("second"), 0o600), nil)
			is("a name that is taken", d.RenameNew(at("a"), at("b")), fs.ErrExist)
			holds("b", "second")
			is("a name that is free", d.RenameNew(at("a"), at("c")), nil)
			names("b", "c")
			is("a name taken away", d.Rename(at("b"), at("c")), nil)
			names("c")
			holds("c", "second")
			is("renaming what is not there", d.Rename(at("b"), at("d")), fs.ErrNotExist)
			is("removing", errors.Join(d.Remove(at("c")), d.Remove(at("c"))), nil)
			names()
			is("names", d.SyncDir(tt.dir), nil)
			if free, total, err := d.Space(tt.dir); err != nil || free <= 0 || free > total {
				t.Errorf("%d of %d bytes free, %v", free, total, err)
			}
		})
	}
}

// What is no regular file is not opened: a pipe would be waited for, a link leads out.
func TestOnlyRegularFiles(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, dir} {
		if f, err := (disk.OS{}).Open(path, false); err == nil {
			f.Close()
			t.Errorf("%s was opened", path)
		}
	}
}
