// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unsafe"

	"windhover/vqf"
)

// aligned is memory for whole pages.
func aligned(n int) []byte {
	b := make([]byte, n+vqf.PageAlign)
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b))) % vqf.PageAlign
	return b[(vqf.PageAlign-at)%vqf.PageAlign:][:n:n]
}

// rangesOf are reads that cover a file of size bytes, in any order.
func rangesOf(size int64) (list []vqf.PageRange) {
	for at := int64(0); at < size; at += 2 * vqf.PageAlign {
		dst := aligned(2 * vqf.PageAlign)
		list = append(list, vqf.PageRange{At: at, Dst: dst, Min: int(min(size-at, int64(len(dst))))})
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// What is read by pages is what the file holds, one by one and through a queue,
// also one shorter than the list; of an encrypted file, after deciphering.
func TestPages(t *testing.T) {
	path, _ := writeMini(t, miniSpec(vqf.ModeDual, 0), nil, map[string]string{"t_meta": `{"v":1}` + strings.Repeat(" ", 1<<20)})
	whole := readFile(t, path)
	f := open(t, path, vqf.OpenOptions{})
	p, err := f.Pages()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	check := func(what string, list []vqf.PageRange, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for _, r := range list {
			if want := whole[r.At:][:r.Min]; !bytes.Equal(r.Dst[:r.Min], want) {
				t.Fatalf("%s: bytes at %d differ", what, r.At)
			}
		}
	}
	list := rangesOf(int64(len(whole)))
	for _, r := range list {
		check("read", []vqf.PageRange{r}, p.Read(r))
	}
	for _, depth := range []int{1, 3, 500} {
		q := p.Queue(depth)
		for range 2 {
			list := rangesOf(int64(len(whole)))
			check("queue", list, q.Read(list))
		}
		if err := q.Read(nil); err != nil {
			t.Errorf("nothing to read: %v", err)
		}
		q.Close()
		list := rangesOf(int64(len(whole)))
		check("closed queue, one by one", list, q.Read(list))
	}
}

func TestPagesDecipher(t *testing.T) {
	_, b := sealedMini(t, vqf.ModeDual, 45, sealing{key: vectorKey(t)}, nil)
	path := tempFile(t, b)
	if _, err := open(t, path, vqf.OpenOptions{Key: vectorKey(t)}).Pages(); !errors.Is(err, vqf.ErrUnsupported) {
		t.Errorf("of a file deciphered whole: %v", err)
	}
	f := open(t, path, vqf.OpenOptions{Key: vectorKey(t), Lazy: true})
	p, err := f.Pages()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	list := rangesOf(f.Size())
	q := p.Queue(8)
	defer q.Close()
	if err := q.Read(list); err != nil {
		t.Fatal(err)
	}
	whole := make([]byte, f.Size())
	for _, r := range list {
		copy(whole[r.At:], r.Dst[:r.Min])
	}
	for _, e := range f.Tensors() {
		want := make([]byte, e.Bytes)
		if err := f.ReadTensor(e.Name, 0, want); err != nil {
			t.Fatal(err)
		}
		got := whole[e.Offset:][:e.Bytes]
		p.Decipher(got, int64(e.Offset))
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs", e.Name)
		}
	}
}

// A file that moves is followed, and one that is cut short is an error that says so.
func TestPagesFollow(t *testing.T) {
	path, _ := writeMini(t, miniSpec(vqf.ModeQ8, 0), nil, nil)
	whole := readFile(t, path)
	f := open(t, path, vqf.OpenOptions{})
	p, err := f.Pages()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	copied := tempFile(t, whole)
	other, err := os.Open(copied)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := f.Rebase(other); err != nil {
		t.Fatal(err)
	}
	if err := p.Follow(f); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	r := vqf.PageRange{At: vqf.PageAlign, Dst: aligned(vqf.PageAlign), Min: vqf.PageAlign}
	if err := p.Read(r); err != nil || !bytes.Equal(r.Dst, whole[vqf.PageAlign:2*vqf.PageAlign]) {
		t.Errorf("after the first file is gone: %v", err)
	}
	if err := os.Truncate(copied, vqf.PageAlign+100); err != nil {
		t.Fatal(err)
	}
	q := p.Queue(4)
	defer q.Close()
	for _, err := range []error{p.Read(r), q.Read([]vqf.PageRange{r})} {
		if !errors.Is(err, vqf.ErrFormat) || !strings.Contains(err.Error(), "cut short") {
			t.Errorf("cut short: %v", err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Pages(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("of a closed file: %v", err)
	}
	if err := p.Follow(f); !errors.Is(err, os.ErrClosed) {
		t.Errorf("follow a closed file: %v", err)
	}
}

func TestPagesRefuse(t *testing.T) {
	path, _ := writeMini(t, miniSpec(vqf.ModeQ8, 0), nil, nil)
	p, err := open(t, path, vqf.OpenOptions{}).Pages()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	b := aligned(2 * vqf.PageAlign)
	for name, r := range map[string]vqf.PageRange{
		"offset": {At: 64, Dst: b}, "length": {Dst: b[:100]}, "address": {Dst: b[64 : 64+vqf.PageAlign]},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s that is no whole page is not refused", name)
				}
			}()
			_ = p.Read(r)
		}()
	}
}
