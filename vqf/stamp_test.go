// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"windhover/vqf"
)

func TestStamp(t *testing.T) {
	plain, _ := sealedMini(t, vqf.ModeQ4, 45, sealing{key: vectorKey(t)}, nil)
	path := tempFile(t, plain)
	f := open(t, path, vqf.OpenOptions{})
	stamp := func() vqf.Stamp {
		t.Helper()
		s, err := f.Stamp()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := stamp()
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	if got := stamp(); got != first {
		t.Errorf("after a change of mode: %+v, want %+v", got, first)
	}
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	second := stamp()
	if second == first {
		t.Error("the stamp of a file that was written to is the same")
	}
	if n := testing.AllocsPerRun(10, func() { stamp() }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	copied, err := os.Open(tempFile(t, plain))
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	if err := f.Rebase(copied); err != nil {
		t.Fatal(err)
	}
	if stamp() == second {
		t.Error("the stamp of another file is the same")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Stamp(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestStampOf: a write whose time was set back shows, and so does a new mode.
func TestStampOf(t *testing.T) {
	f, err := os.OpenFile(tempFile(t, []byte("content")), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stamp := func() vqf.Stamp {
		t.Helper()
		s, err := vqf.StampOf(f)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	fi, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	first := stamp()
	if stamp() != first {
		t.Error("two stamps of one file differ")
	}
	if _, err := f.WriteAt([]byte("C"), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(f.Name(), time.Time{}, fi.ModTime()); err != nil {
		t.Fatal(err)
	}
	second := stamp()
	if runtime.GOOS == "linux" && second == first {
		t.Error("the stamp of a file that was written to is the same")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := vqf.StampOf(f); err == nil {
		t.Error("closed: no error")
	}
}
