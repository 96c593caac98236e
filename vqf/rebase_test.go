// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"testing"

	"windhover/vqf"
)

// TestRebase moves a file that is being read onto a copy, then destroys the
// first one: nobody may see that.
func TestRebase(t *testing.T) {
	path, _ := writeMini(t, miniSpec(vqf.ModeQ8, 0), nil, map[string]string{"t_meta": `{"v":1}`})
	whole := readFile(t, path)
	f := open(t, path, vqf.OpenOptions{})
	want := map[string][]byte{}
	held := map[string][]byte{}
	for _, e := range f.Tensors() {
		b, err := f.Data(e.Name)
		if err != nil {
			t.Fatal(err)
		}
		held[e.Name], want[e.Name] = b, bytes.Clone(b)
	}
	other, err := os.Open(tempFile(t, whole))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}()
	moved := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				for name := range held {
					if !bytes.Equal(held[name], want[name]) {
						t.Errorf("%s differs while the file moves", name)
						return
					}
				}
				select {
				case <-moved:
					return
				default:
				}
			}
		})
	}
	for range 100 {
		if err := f.Rebase(other); err != nil {
			t.Fatal(err)
		}
	}
	close(moved)
	wg.Wait()
	if err := os.WriteFile(path, []byte("gone"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name := range held {
		if !bytes.Equal(held[name], want[name]) {
			t.Errorf("%s differs after the first file was written over", name)
		}
	}
	if got := string(f.Meta()); got != `{"v":1}` {
		t.Errorf("what is read by the descriptor: got %q", got)
	}
}

func TestRebaseRefuses(t *testing.T) {
	path, _ := writeMini(t, miniSpec(vqf.ModeQ8, 0), nil, nil)
	whole := readFile(t, path)
	f := open(t, path, vqf.OpenOptions{})
	short, err := os.Open(tempFile(t, whole[:len(whole)-1]))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := short.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := f.Rebase(short); !errors.Is(err, vqf.ErrFormat) {
		t.Errorf("onto a shorter file: got %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	same, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := same.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := f.Rebase(same); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed file: got %v", err)
	}
}
