// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
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

// copyStep is how much is copied between two looks at the context.
const copyStep = 8 << 20

// reserve is the free space that a copy into the store leaves.
const reserve = 256 << 20

// noSpaceError says what a copy needed and what there was.
type noSpaceError struct{ Need, Free int64 }

func (e *noSpaceError) Error() string {
	return fmt.Sprintf("the store needs %d MiB and %d MiB are free: remove a model or give paths.state a larger disk", e.Need>>20, e.Free>>20)
}

// adopt puts the candidate's weights into the store before they are verified,
// so that what is verified is what will be mapped: nobody but us can write to it
// any more. It returns the path of the stored weights under a temporary name;
// settleIn gives it its final one.
func (s store) adopt(ctx context.Context, c candidate) (dir string, err error) {
	dir, err = os.MkdirTemp(s.dir, ".adopt-*")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir) // the first error is the one to tell
		}
	}()
	if err := s.take(ctx, c.Weights, filepath.Join(dir, "model.vqf"), c.ID); err != nil {
		return "", err
	}
	for i, side := range c.Side {
		// Tokenizer files are small: always our own copy.
		if err := copyInto(ctx, side, filepath.Join(dir, filepath.Base(side)), c.SideIDs[i].Size); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// take links src to dst when it is ours alone to write, else copies it. The
// identity of what was taken must be the one that was judged complete.
func (s store) take(ctx context.Context, src, dst string, want fileID) error {
	fi, err := os.Lstat(src)
	if err != nil {
		return err
	}
	if identify(fi).content() != want.content() {
		return fmt.Errorf("%s changed while it was being installed", filepath.Base(src))
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && int(st.Uid) == os.Geteuid() {
		if err := os.Chmod(src, 0o440); err != nil {
			return err
		}
		if err := os.Link(src, dst); err == nil {
			return nil
		} else if !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.EMLINK) && !errors.Is(err, unix.EPERM) {
			return err
		}
	}
	return copyInto(ctx, src, dst, want.Size)
}

// copyInto copies src to dst by reflink where the file system can, else in
// steps; dst is read-only and on disk when it returns.
func copyInto(ctx context.Context, src, dst string, size int64) (err error) {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // read only
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o440)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) == nil {
		return out.Sync()
	}
	if free, ok := freeSpace(filepath.Dir(dst)); ok && size > 1<<20 && free < size+reserve {
		return &noSpaceError{Need: size + reserve, Free: free}
	}
	var done int64
	for done < size {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.CopyN(out, in, min(copyStep, size-done)) // copy_file_range underneath
		done += n
		if err == io.EOF {
			return fmt.Errorf("%s became shorter while it was being copied", filepath.Base(src))
		}
		if err != nil {
			return err
		}
	}
	return out.Sync()
}

// settleIn gives an adopted and verified directory its final name and returns
// its key and the path of the weights. An older entry of the same digest is
// replaced, not trusted: somebody with the right to may have written over it.
// Mappings of the older file stay valid.
func (s store) settleIn(dir, base string) (key, weights string, err error) {
	if key, err = storeKey(dir, base); err != nil {
		return "", "", err
	}
	if err := syncDir(dir); err != nil {
		return "", "", err
	}
	final := filepath.Join(s.dir, key)
	if exists(final) {
		old := dir + ".old"
		if err := os.Rename(final, old); err != nil {
			return "", "", err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(old)) }()
	}
	if err := os.Rename(dir, final); err != nil {
		return "", "", err
	}
	return key, s.weights(key), syncDir(s.dir)
}

func (s store) weights(key string) string { return filepath.Join(s.dir, key, "model.vqf") }

// storeKey is the key of the weights, and for a model with files of its own
// beside it a suffix that depends on those files.
func storeKey(dir, base string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	h, side := sha256.New(), 0
	for _, e := range entries {
		if e.Name() == "model.vqf" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		_, _ = fmt.Fprintf(h, "%s %d\n", e.Name(), len(data)) // a hash never fails to write
		_, _ = h.Write(data)
		side++
	}
	if side > 0 {
		base += "." + hex.EncodeToString(h.Sum(nil))[:16]
	}
	return base, nil
}

// collect removes what no model uses: every entry but those in keep.
func (s store) collect(keep map[string]bool) error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		n := e.Name()
		if keep[n] || !(strings.HasPrefix(n, "sha256-") || strings.HasPrefix(n, "unread-") || strings.HasPrefix(n, ".adopt-")) {
			continue
		}
		errs = append(errs, os.RemoveAll(filepath.Join(s.dir, e.Name())))
	}
	return errors.Join(errs...)
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
