// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"windhover/engine/vision"
	"windhover/kernels"
	"windhover/vqf"
)

// sight is what a model with a vision tower has for pictures.
type sight struct {
	tower  *vision.Tower
	cfg    vision.Config // budgets as admission lowered them
	limits vision.Limits // of files
	ids    vision.PlaceIDs
	start  int32 // tokens around the places of a frame
	end    int32
	mem    []byte // the tower of an encrypted file; nil: the mapping has it

	decoding chan struct{} // capacity 1: one picture is decoded at a time, memory is counted for one
	held     heldPictures

	// begin is the tower's Begin; tests count. The goroutine that computes uses it
	// and what follows.
	begin func(*vision.Patches, *kernels.Pool) (*vision.Encoding, error)
	at    *underway // nil: no picture
	kept  embeddings
}

// openSight binds the tower of a file, which is deciphered into memory of its own
// where the file is encrypted; nil for a file without one. stamp is that of the
// file when it was verified.
func openSight(f *vqf.File, opt Options, need Need, stamp vqf.Stamp, workers int) (*sight, error) {
	if !f.HasVision() {
		return nil, nil
	}
	a := f.Arch()
	s := &sight{
		ids:   vision.PlaceIDs{Image: int32(a.ImageTokenID), Video: int32(a.VideoTokenID)},
		start: int32(a.VisionStartID), end: int32(a.VisionEndID),
		limits: need.pictures.limits, kept: embeddings{budget: need.pictures.kept},
		decoding: make(chan struct{}, 1), held: heldPictures{budget: need.pictures.held},
	}
	o := vision.Options{Reference: opt.reference()}
	if f.Flags()&vqf.FlagEnc != 0 {
		data, err := s.decipher(f, stamp, workers)
		if err != nil {
			return s, err
		}
		o.Data = data
	}
	if need.Residency != ResidencyFull && s.mem == nil {
		o.Drop = func(data []byte) { advise([][]byte{wholePages(data, os.Getpagesize())}, unix.MADV_DONTNEED) }
	}
	var err error
	if s.tower, err = vision.Open(f, o); err != nil {
		return s, fmt.Errorf("engine: %w", err)
	}
	s.begin = s.tower.Begin
	s.cfg = need.pictures.lower(s.tower.Config())
	return s, nil
}

// sight tells what it takes, for Info.
func (s *sight) describe() *Sight {
	return &Sight{
		MinPixels: s.cfg.Image.Min, MaxPixels: s.cfg.Image.Max, VideoPixels: s.cfg.Video.Max,
		PlaceSide: s.cfg.Patch * s.cfg.Merge, FileBytes: s.limits.Bytes, FilePixels: s.limits.Pixels,
	}
}

// towerPrefix is what the names of the tower's tensors begin with.
const towerPrefix = "v_"

// decipher reads the tower of an encrypted file into anonymous memory, as slots
// are. What it returns finds a tensor there.
func (s *sight) decipher(f *vqf.File, stamp vqf.Stamp, workers int) (func(name string) ([]byte, error), error) {
	type piece struct {
		name string
		off  int64
		dst  []byte
	}
	total := int64(0)
	var tensors []vqf.Tensor
	for _, t := range f.Tensors() {
		if strings.HasPrefix(t.Name, towerPrefix) {
			tensors = append(tensors, t)
			total += roundUp(int64(t.Bytes), slotAlign)
		}
	}
	mem, err := unix.Mmap(-1, 0, int(max(total, 1)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("engine: %d bytes for the vision tower: %w", total, err)
	}
	s.mem = mem
	_ = unix.Madvise(mem, unix.MADV_DONTDUMP) // a kernel without it dumps them
	at := map[string][]byte{}
	var pieces []piece
	for _, t := range tensors {
		n := int64(t.Bytes)
		at[t.Name] = mem[:n:n]
		for off := int64(0); off < n; off += pieceBytes {
			to := min(off+pieceBytes, n)
			pieces = append(pieces, piece{t.Name, off, mem[off:to:to]})
		}
		mem = mem[roundUp(n, slotAlign):]
	}
	var next atomic.Int64
	errs := make([]error, workers)
	var ended sync.WaitGroup
	for w := range workers {
		ended.Go(func() {
			for errs[w] == nil {
				i := int(next.Add(1)) - 1
				if i >= len(pieces) {
					return
				}
				errs[w] = f.ReadTensor(pieces[i].name, pieces[i].off, pieces[i].dst)
			}
		})
	}
	ended.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("engine: vision tower: %w", err)
		}
	}
	now, err := f.Stamp()
	if err == nil && now != stamp {
		err = ErrChanged
	}
	if err != nil {
		return nil, err
	}
	return func(name string) ([]byte, error) {
		data, ok := at[name]
		if !ok {
			return nil, fmt.Errorf("%s: no tensor %q: %w", f.Path(), name, vqf.ErrFormat)
		}
		return data, nil
	}, nil
}

// wholePages cuts b to the pages of the system that lie in it entirely.
func wholePages(b []byte, page int) []byte {
	from := (page - int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(page))) % page
	n := (len(b) - from) / page * page
	if n <= 0 {
		return nil
	}
	return b[from:][:n]
}

func (s *sight) close() error {
	if s == nil || s.mem == nil {
		return nil
	}
	mem := s.mem
	s.mem = nil
	if err := unix.Munmap(mem); err != nil {
		return fmt.Errorf("engine: vision tower: %w", err)
	}
	return nil
}
