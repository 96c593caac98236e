// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// truncatedMapping maps a file of two pages and cuts it to one: touching the
// second page raises SIGBUS.
func truncatedMapping(t *testing.T) (m []byte, page int) {
	t.Helper()
	page = unix.Getpagesize()
	f, err := os.Create(filepath.Join(t.TempDir(), "weights"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(int64(2 * page)); err != nil {
		t.Fatal(err)
	}
	m, err = unix.Mmap(int(f.Fd()), 0, 2*page, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(m) })
	if err := f.Truncate(int64(page)); err != nil {
		t.Fatal(err)
	}
	return m, page
}

// TestPoolFault: a cut file is an error of the task, with the address, in Go code
// and in every product kernel; the pool serves on.
func TestPoolFault(t *testing.T) {
	m, page := truncatedMapping(t)
	p := newTestPool(t, true)
	hasAddr := faultHasAddr(&m[page])
	if !hasAddr && runtime.GOARCH == "amd64" {
		t.Error("the runtime gives no address for SIGBUS")
	}
	check := func(what string, worker int, err error) {
		t.Helper()
		var f *FaultError
		if !errors.As(err, &f) {
			t.Errorf("%s: error %v, want a FaultError", what, err)
			return
		}
		lo := uintptr(unsafe.Pointer(&m[0])) + uintptr(page)
		if f.Worker != worker || f.HasAddr != hasAddr {
			t.Errorf("%s: %v, want worker %d, address known %v", what, err, worker, hasAddr)
		}
		if f.HasAddr && (f.Addr < lo || f.Addr >= lo+uintptr(page) || !strings.Contains(f.Error(), "fault at address")) {
			t.Errorf("%s: %v, want an address from %#x", what, err, lo)
		}
		if err := p.Run(taskFunc(func(int, int) {})); err != nil {
			t.Errorf("after %s: %v", what, err)
		}
	}
	for bad := range 2 {
		var sink byte
		check("a read", bad, p.Run(taskFunc(func(w, _ int) {
			if w == bad {
				sink += m[page+5]
			}
		})))
	}
	eachImplementation(t, func(t *testing.T) {
		for _, l := range layouts {
			for _, tokens := range []int{1, 9} {
				rows := l.Rows() * (2 * page / l.GroupBytes() / 4)
				matrix, err := NewMatrix(m[:rows*4*l.BlockBytes()], rows, 4*BlockLen, l)
				if err != nil {
					t.Fatal(err)
				}
				a := NewActs(tokens, matrix.Cols)
				a.Quantize(make([]float32, tokens*matrix.Cols), tokens)
				dst := make([]float32, tokens*rows)
				for bad := range 2 {
					check("MatMul "+l.String(), bad, p.Run(taskFunc(func(w, _ int) {
						if w == bad {
							MatMul(dst, rows, &matrix, a, 0, rows)
						}
					})))
				}
			}
		}
	})
}

// faultHasAddr tells whether the system reports where a fault was: qemu's user
// mode gives address 0 for SIGBUS.
func faultHasAddr(bad *byte) (has bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		_, has = recover().(interface{ Addr() uintptr })
	}()
	return *bad == 0
}
