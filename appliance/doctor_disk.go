// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// state says whether the directory for everything is there.
func (d *doctor) state(context.Context) {
	p := d.cfg.Paths
	fi, err := os.Stat(p.State)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.warn("state", "it is made when the appliance first starts", "%s is not there yet", p.State)
		return
	case err != nil:
		d.fail("state", "check the rights of the directories above it", "%s", oneLine(err))
		return
	case !fi.IsDir():
		d.fail("state", "set paths.state to a directory", "%s is no directory", p.State)
		return
	}
	free, ok := freeSpace(p.State)
	detail := fmt.Sprintf("%s, %s free", p.State, gib(free))
	drop, store := device(p.drop()), device(p.store())
	switch {
	case d.readOnly(p.State):
		d.fail("state", "mount it writable; the kernel takes that away after an error of the disk, which dmesg tells", "%s; its file system is read-only", detail)
	case drop != 0 && store != 0 && drop != store:
		d.fail("state", "put both on one file system: a model gets from drop to store by a link", "%s; drop and store are on two file systems", detail)
	case ok && free < 1<<30:
		d.warn("state", "make room: a model is copied in whole", "%s", detail)
	default:
		d.ok("state", "%s", detail)
	}
}

// readOnlyDisk says whether nobody may write to the file system of dir.
func readOnlyDisk(dir string) bool {
	var s unix.Statfs_t
	return unix.Statfs(dir, &s) == nil && s.Flags&unix.ST_RDONLY != 0
}

// device is the file system that holds path, 0 if there is none to see.
func device(path string) uint64 {
	fi, err := os.Stat(path)
	if err != nil {
		return 0
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return uint64(st.Dev)
}

// drop says whether this user may drop models.
func (d *doctor) drop(context.Context) {
	dir := d.cfg.Paths.drop()
	who := "this user"
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	fi, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.warn("drop", "it is made when the appliance first starts", "%s is not there yet", dir)
		return
	case errors.Is(err, fs.ErrPermission):
		d.warn("drop", d.joinGroup(d.cfg.Paths.State, who), "%s: %s may not look into %s", dir, who, d.cfg.Paths.State)
		return
	case err != nil:
		d.fail("drop", "check paths.state", "%s", oneLine(err))
		return
	}
	detail := fmt.Sprintf("%s, %s", dir, fi.Mode())
	if d.readOnly(dir) {
		d.fail("drop", "mount it writable", "%s: nobody may write there: its file system is read-only", detail)
		return
	}
	if unix.Access(dir, unix.W_OK|unix.X_OK) != nil {
		d.warn("drop", d.joinGroup(dir, who), "%s: %s may not write there", detail, who)
		return
	}
	d.ok("drop", "%s: %s may drop models", detail, who)
}

// joinGroup is the advice for a user without rights to a directory of the group.
func (d *doctor) joinGroup(dir, who string) string {
	group := "windhover"
	if fi, err := os.Stat(dir); err == nil {
		if st, ok := fi.Sys().(*syscall.Stat_t); ok {
			if g, err := user.LookupGroupId(strconv.Itoa(int(st.Gid))); err == nil {
				group = g.Name
			}
		}
	}
	return fmt.Sprintf("sudo usermod -aG %s %s, and log in again", group, who)
}

const (
	storageTest = 64 << 20
	slowStorage = 40e6 // bytes a second: a model of 1 GB takes 25 s
)

// storage measures how fast a file is written and read where models lie.
func (d *doctor) storage(ctx context.Context) {
	dir := d.cfg.Paths.store()
	if d.readOnly(dir) {
		d.warn("storage", "", "%s: not measured: its file system is read-only", dir)
		return
	}
	for unix.Access(dir, unix.W_OK|unix.X_OK) != nil && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	note := ""
	if unix.Access(dir, unix.W_OK|unix.X_OK) != nil || dir == "/" {
		dir, note = os.TempDir(), " (not where models lie: this user may not write there)"
	}
	if free, ok := freeSpace(dir); ok && free < 4*storageTest {
		d.warn("storage", "make room", "%s: %s free is too little to measure", dir, gib(free))
		return
	}
	write, read, err := measureStorage(ctx, dir)
	switch {
	case err != nil:
		d.warn("storage", "", "%s: not measured: %s", dir, oneLine(err))
	case read < slowStorage:
		d.warn("storage", "models load slowly: put paths.state on a faster disk", "%s%s: writes %.0f MB/s, reads %.0f MB/s", dir, note, write/1e6, read/1e6)
	default:
		d.ok("storage", "%s%s: writes %.0f MB/s, reads %.0f MB/s", dir, note, write/1e6, read/1e6)
	}
}

// measureStorage returns bytes a second. What is read is dropped from the page
// cache first, where the kernel does so.
func measureStorage(ctx context.Context, dir string) (write, read float64, err error) {
	f, err := os.CreateTemp(dir, ".windhover-doctor-*")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	buf := make([]byte, 1<<20)
	newNoise(1).fill(buf)
	start := time.Now()
	for range storageTest / len(buf) {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		if _, err := f.Write(buf); err != nil {
			return 0, 0, err
		}
	}
	if err := f.Sync(); err != nil {
		return 0, 0, err
	}
	write = storageTest / time.Since(start).Seconds()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return 0, 0, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, 0, err
	}
	start = time.Now()
	for {
		if _, err := io.ReadFull(f, buf); err != nil {
			break // the end: the length is a multiple of the buffer's
		}
	}
	return write, storageTest / time.Since(start).Seconds(), nil
}
