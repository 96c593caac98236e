// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"windhover/vqf"
)

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fi.Mode().Perm()
}

// TestResealMode: no new file is readable by more people than the one it comes
// from, and a file that is replaced keeps its mode.
func TestResealMode(t *testing.T) {
	key := vectorKey(t)
	_, enc := sealedMini(t, vqf.ModeQ4, 45, sealing{key: key, iv: vectorIV()}, nil)
	for _, mode := range []fs.FileMode{0o600, 0o400, 0o640, 0o440, 0o644} {
		path := tempFile(t, enc)
		dst := filepath.Join(t.TempDir(), "dst.vqf")
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		during := fs.FileMode(0)
		look := func(int64, int64) {
			if names, err := filepath.Glob(filepath.Join(filepath.Dir(dst), ".*.tmp")); err == nil && len(names) == 1 {
				during |= modeOf(t, names[0])
			}
		}
		if _, err := vqf.Reseal(t.Context(), path, dst, vqf.ResealOptions{From: key}, look); err != nil {
			t.Fatal(err)
		}
		if got := modeOf(t, dst); got&^mode != 0 || during == 0 || during&^mode != 0 {
			t.Errorf("decrypted from %v: mode %v, while it was written %v", mode, got, during)
		}
		if _, err := vqf.Reseal(t.Context(), path, path, vqf.ResealOptions{From: key, To: key, Sign: private(t, vectorD)}, nil); err != nil {
			t.Fatal(err)
		}
		if got := modeOf(t, path); got != mode {
			t.Errorf("in place: mode %v, want %v", got, mode)
		}
		if err := os.Chmod(dst, 0o660); err != nil {
			t.Fatal(err)
		}
		if _, err := vqf.Reseal(t.Context(), path, dst, vqf.ResealOptions{From: key, DropSignature: true}, nil); err != nil {
			t.Fatal(err)
		}
		if got := modeOf(t, dst); got != 0o660 {
			t.Errorf("over a file of mode 0660: %v", got)
		}
	}
}

// TestResealOwner: owner and group stay where this user may give files away.
func TestResealOwner(t *testing.T) {
	path, _ := writeMini(t, miniSpec(vqf.ModeQ4, 45), nil, nil)
	if err := os.Chown(path, 12345, 54321); errors.Is(err, fs.ErrPermission) {
		t.Skip("only root may give files away")
	} else if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := vqf.Reseal(t.Context(), path, path, vqf.ResealOptions{Sign: private(t, vectorD)}, nil); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if st := fi.Sys().(*syscall.Stat_t); st.Uid != 12345 || st.Gid != 54321 || fi.Mode().Perm() != 0o640 {
		t.Errorf("owner %d:%d, mode %v", st.Uid, st.Gid, fi.Mode())
	}
}

// TestWriteThroughLink: whoever writes to a symbolic link replaces the file that it
// leads to, in its own directory, and the link stays.
func TestWriteThroughLink(t *testing.T) {
	spec := miniSpec(vqf.ModeQ4, 45)
	path, _ := writeMini(t, spec, nil, nil)
	link := filepath.Join(t.TempDir(), "link.vqf")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	isLink := func(what string) {
		t.Helper()
		if to, err := os.Readlink(link); err != nil || to != path {
			t.Errorf("%s: the link leads to %q, %v", what, to, err)
		}
		ls(t, path, filepath.Base(path))
		ls(t, link, "link.vqf")
	}
	if _, err := vqf.Reseal(t.Context(), link, link, vqf.ResealOptions{To: vectorKey(t)}, nil); err != nil {
		t.Fatal(err)
	}
	isLink("encrypt")
	if f := open(t, path, vqf.OpenOptions{Key: vectorKey(t)}); !f.Encrypted() {
		t.Error("the file behind the link stayed as it was")
	}
	plan, err := vqf.NewPlan(spec)
	if err != nil {
		t.Fatal(err)
	}
	w, err := vqf.CreatePartial(link, plan)
	if err != nil {
		t.Fatal(err)
	}
	m := w.Mark()
	w.Leave()
	if _, err := os.Stat(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".partial")); err != nil {
		t.Error(err)
	}
	if w, err = vqf.Resume(t.Context(), link, plan, m, nil); err != nil {
		t.Fatal(err)
	}
	w.Abort()
	isLink("partial")
	if err := vqf.ReplaceFile(link, []byte("small")); err != nil {
		t.Fatal(err)
	}
	isLink("small file")
	if got := readFile(t, path); string(got) != "small" {
		t.Errorf("got %d bytes", len(got))
	}
	// A link that leads to no file is a name like any other.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := vqf.ReplaceFile(link, []byte("small")); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Lstat(link); err != nil || !fi.Mode().IsRegular() {
		t.Errorf("after a link to nothing: %v, %v", fi, err)
	}
}

// TestReplaceFileSweeps: what a killed process left of the same file goes.
func TestReplaceFileSweeps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.minisig")
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), ".x.minisig.ABCDEFGH.tmp"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := vqf.ReplaceFile(path, []byte("a")); err != nil {
		t.Fatal(err)
	}
	ls(t, path, "x.minisig")
	if err := vqf.ReplaceFile(filepath.Join(path, "no", "dir"), nil); err == nil {
		t.Error("no directory is no error")
	}
}

// TestPipeForFile: a pipe where a file should be is refused and not waited for.
func TestPipeForFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe.vqf")
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := vqf.Open(path, vqf.OpenOptions{}); err == nil {
		t.Error("open: no error")
	}
	if _, err := vqf.Verify(t.Context(), path, vqf.VerifyOptions{}, nil); err == nil {
		t.Error("verify: no error")
	}
	if _, err := vqf.Inspect(path); err == nil {
		t.Error("inspect: no error")
	}
	if _, err := vqf.Reseal(t.Context(), path, path, vqf.ResealOptions{Sign: private(t, vectorD)}, nil); err == nil {
		t.Error("reseal: no error")
	}
}
