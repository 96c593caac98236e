// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// store keeps the weight files that serve, under their digest. A file that is
// ours enters by a hard link and costs no space; a file of another user is
// copied, because its owner could still write to it while it is mapped.
type store struct{ dir string }

// adopting begins the names of directories that are being filled.
const adopting = ".adopt-"

// storedName is what weights are called there.
const storedName = "model.vqf"

// copyStep is how much is copied between two looks at the context.
const copyStep = 8 << 20

// reserve is the free space that a copy into the store leaves.
const reserve = 256 << 20

// noSpaceError says what a copy needed and what there was.
type noSpaceError struct{ Need, Free int64 }

func (e *noSpaceError) Error() string {
	return fmt.Sprintf("the store needs %d MiB and %d MiB are free: remove a model or give paths.state a larger disk", e.Need>>20, e.Free>>20)
}

// adopt puts the candidate's files into the store before they are verified, so
// that what is verified is what will be mapped. It returns the directory under a
// temporary name; settleIn gives it its final one. The error is errChanged when
// the files are no longer those that were judged complete.
func (s store) adopt(ctx context.Context, c candidate) (_ string, err error) {
	dir, err := os.MkdirTemp(s.dir, adopting+"*")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir) // the first error is the one to tell
		}
	}()
	if err := take(ctx, c.Weights, filepath.Join(dir, storedName), c.ID, true); err != nil {
		return "", err
	}
	for i, side := range c.Side {
		// Tokenizer files are small: always our own copy.
		to := filepath.Join(dir, c.beside(side))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return "", err
		}
		if err := take(ctx, side, to, c.SideIDs[i], false); err != nil {
			return "", err
		}
		if err := syncDir(filepath.Dir(to)); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// take brings the file src, in the state want, to dst: as a clone where the file
// system can, as a link where it is ours and link says so, else as a copy.
func take(ctx context.Context, src, dst string, want fileID, link bool) error {
	in, fi, err := openPlain(src)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotRegular) {
		return fmt.Errorf("%s: %w", filepath.Base(src), errChanged)
	}
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // read only
	if identify(fi).content() != want.content() {
		return fmt.Errorf("%s: %w", filepath.Base(src), errChanged)
	}
	cloned, err := clone(in, dst)
	if err != nil || cloned {
		return errors.Join(err, unwritten(in, want))
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); link && ok && int(st.Uid) == os.Geteuid() {
		if linked, err := linkOpen(in, dst); err != nil || linked {
			return err
		}
	}
	if err := copyOpen(ctx, in, dst, want.Size, reserve); err != nil {
		return err
	}
	return unwritten(in, want)
}

// clone makes dst share the blocks of in, each its own to write; false where the
// file system cannot.
func clone(in *os.File, dst string) (bool, error) {
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o440)
	if err != nil {
		return false, err
	}
	if unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) == nil {
		return true, errors.Join(out.Sync(), out.Close())
	}
	return false, errors.Join(out.Close(), os.Remove(dst))
}

// linkOpen gives the very file that is open a second name, whatever its first one
// leads to by now, and takes the right to write from its owner; false where
// there can be no link. Both names are then one file: see lease.go.
func linkOpen(in *os.File, dst string) (bool, error) {
	if in.Chmod(0o440) != nil {
		return false, nil // a read-only file system: no link from there either
	}
	self := fmt.Sprintf("/proc/self/fd/%d", in.Fd())
	switch err := unix.Linkat(unix.AT_FDCWD, self, unix.AT_FDCWD, dst, unix.AT_SYMLINK_FOLLOW); {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.EMLINK), errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOENT):
		return false, nil // other file system; too many links; not allowed; no /proc, or no name left
	default:
		return false, &os.LinkError{Op: "link", Old: in.Name(), New: dst, Err: err}
	}
}

// copyOpen copies size bytes of in to dst, which is read-only and on disk when it
// returns. It leaves keep bytes of the file system free.
func copyOpen(ctx context.Context, in *os.File, dst string, size, keep int64) (err error) {
	if free, ok := freeSpace(filepath.Dir(dst)); ok && size > 1<<20 && free < size+keep {
		return &noSpaceError{Need: size + keep, Free: free}
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return err
	}
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o440)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	for done := int64(0); done < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		beat(ctx)
		n, err := io.CopyN(out, in, min(copyStep, size-done)) // copy_file_range underneath
		done += n
		switch {
		case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
			free, _ := freeSpace(filepath.Dir(dst))
			return &noSpaceError{Need: size + keep, Free: free}
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%s: %w", filepath.Base(in.Name()), errChanged)
		case err != nil:
			return err
		}
	}
	return out.Sync()
}

// settleIn gives an adopted and verified directory its final name and returns
// its key. An entry of the same digest that is still what was verified stays, and
// the new one goes; any other is replaced, not trusted: somebody with the right to
// may have written over it. Mappings of the older file stay valid.
func (s store) settleIn(dir, base string, verified func(key string, id fileID) bool) (key string, err error) {
	if key, err = storeKey(dir, base); err != nil {
		return "", err
	}
	if fi, err := os.Stat(s.weights(key)); err == nil && verified(key, identify(fi).content()) {
		return key, os.RemoveAll(dir)
	}
	if err := syncDir(dir); err != nil {
		return "", err
	}
	final := filepath.Join(s.dir, key)
	if exists(final) {
		old := dir + ".old"
		if err := os.Rename(final, old); err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(old)) }()
	}
	if err := os.Rename(dir, final); err != nil {
		return "", err
	}
	return key, syncDir(s.dir)
}

func (s store) weights(key string) string { return filepath.Join(s.dir, key, storedName) }

// storeKey is the key of the weights, and for a model with files of its own
// beside it a suffix that depends on those files.
func storeKey(dir, base string) (string, error) {
	h, side := sha256.New(), 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, dir+"/")
		if err != nil || e.IsDir() || name == storedName {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(h, "%s %d\n", name, len(data)) // a hash never fails to write
		_, _ = h.Write(data)
		side++
		return nil
	})
	if err != nil {
		return "", err
	}
	if side > 0 {
		base += "." + hex.EncodeToString(h.Sum(nil))[:16]
	}
	return base, nil
}

// collect removes every entry but those in keep.
func (s store) collect(keep map[string]bool) error {
	return s.sweep(func(name string) bool {
		return !keep[name] && (strings.HasPrefix(name, "sha256-") || strings.HasPrefix(name, "unread-"))
	})
}

// tidy removes what a run that was cut off left half done. Nothing else may be at
// work in the store.
func (s store) tidy() error {
	return s.sweep(func(name string) bool { return strings.HasPrefix(name, adopting) })
}

func (s store) sweep(remove func(name string) bool) error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if remove(e.Name()) {
			errs = append(errs, os.RemoveAll(filepath.Join(s.dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// bytes is the length of all files in it, as far as they can be seen.
func (s store) bytes() (n int64) {
	_ = filepath.WalkDir(s.dir, func(_ string, e fs.DirEntry, err error) error { // nothing ends the walk
		if err != nil || e.IsDir() {
			return nil
		}
		if fi, err := e.Info(); err == nil {
			n += fi.Size()
		}
		return nil
	})
	return n
}

// diskSize is the size of the file system that holds dir.
func diskSize(dir string) (int64, bool) {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return 0, false
	}
	return int64(st.Blocks) * st.Bsize, true
}

// freeSpace is what an ordinary user can still write to the file system of dir.
func freeSpace(dir string) (int64, bool) {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return 0, false
	}
	return int64(st.Bavail) * st.Bsize, true
}
