// SPDX-License-Identifier: Apache-2.0

package safetensors

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"slices"
	"strconv"
	"sync"
)

// Limits on what a header may claim. The header's length is the reference
// reader's own limit, the others are far above every published model.
const (
	maxHeader   = 100_000_000
	maxTensors  = 65536
	maxName     = 1024
	maxNames    = 16 << 20 // bytes of all names
	maxMetadata = 4096     // entries
	maxDims     = 16
	maxValues   = 1 << 56
)

// Tensor is one entry of a header.
type Tensor struct {
	Name   string
	DType  string   // as in the file: F32, F16, BF16 …
	Shape  []uint64 // outermost first; empty for a scalar
	Offset int64    // of the first byte, in the file
	Bytes  int64
	values uint64
	shard  int // of the model; 0 for a single file
}

// Values is the number of elements.
func (t Tensor) Values() uint64 { return t.values }

// File is an open safetensors file. Its methods may be called concurrently.
type File struct {
	r       io.ReaderAt
	closer  io.Closer // nil when the caller owns r
	path    string
	size    int64
	tensors []Tensor
	index   map[string]int
}

// Open opens the file at path and checks its header. No tensor data is read.
func Open(path string) (*File, error) {
	o, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	st, err := o.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	var f *File
	if err == nil {
		f, err = New(o, st.Size())
	}
	if err != nil {
		o.Close() // nothing was written: only the first error matters
		return nil, withPath(err, path)
	}
	f.closer, f.path = o, path
	return f, nil
}

// New checks the header of the size bytes of r, which must stay readable for
// as long as the File is used.
func New(r io.ReaderAt, size int64) (*File, error) {
	var b [9]byte
	if size < int64(len(b)) {
		return nil, bad("file", 0, "%d bytes are too few for a header", size)
	}
	if n, err := r.ReadAt(b[:], 0); n < len(b) {
		return nil, fmt.Errorf("reading the header length: %w", err)
	}
	n := binary.LittleEndian.Uint64(b[:])
	switch {
	case n > maxHeader:
		return nil, bad("header length", 0, "%d exceeds the limit of %d", n, maxHeader)
	case int64(n) > size-8:
		return nil, bad("header length", 0, "%d reaches past the end of the file at byte %d", n, size)
	case b[8] != '{':
		return nil, bad("header", 8, "begins with %q, want '{'", b[8])
	}
	f := &File{r: r, size: size, index: map[string]int{}}
	if err := f.readHeader(newLexer(io.NewSectionReader(r, 8, int64(n)), 8)); err != nil {
		return nil, err
	}
	if err := f.place(8+int64(n), size); err != nil {
		return nil, err
	}
	return f, nil
}

// Close releases the file that Open opened; it is idempotent.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	c := f.closer
	f.closer = nil
	return c.Close()
}

// Path is the file's path, empty when New was given a reader.
func (f *File) Path() string { return f.path }

// Size is the number of bytes of the file.
func (f *File) Size() int64 { return f.size }

// Tensors returns the header's entries in its order; the shapes are shared
// and must not be changed.
func (f *File) Tensors() []Tensor { return slices.Clone(f.tensors) }

// Tensor returns the entry called name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.index[name]
	if !ok {
		return Tensor{}, false
	}
	return f.tensors[i], true
}

func (f *File) readHeader(l *lexer) error {
	names, metadata := 0, false
	err := l.object(maxName, func(name string) error {
		if name == "__metadata__" {
			if metadata {
				return l.errorf("duplicate key %q", name)
			}
			metadata = true
			return readMetadata(l)
		}
		if _, dup := f.index[name]; dup {
			return l.errorf("duplicate tensor %q", name)
		}
		if names += len(name); len(f.tensors) == maxTensors || names > maxNames {
			return l.errorf("over %d tensors or %d bytes of names", maxTensors, maxNames)
		}
		t := Tensor{Name: name}
		if err := t.read(l); err != nil {
			return err
		}
		f.index[name] = len(f.tensors)
		f.tensors = append(f.tensors, t)
		return nil
	})
	if err != nil {
		return err
	}
	return l.end()
}

// readMetadata checks the free-form map of strings, which nothing here uses.
func readMetadata(l *lexer) error {
	seen := map[string]bool{}
	return l.object(maxName, func(key string) error {
		if seen[key] {
			return l.errorf("duplicate metadata key %q", key)
		}
		if seen[key] = true; len(seen) > maxMetadata {
			return l.errorf("over %d metadata entries", maxMetadata)
		}
		return l.skipText()
	})
}

// read takes dtype, shape and data_offsets, each exactly once. The offsets are
// left relative to the data area, in Offset and Bytes.
func (t *Tensor) read(l *lexer) error {
	at := l.pos
	var offsets []uint64
	seen := map[string]bool{}
	err := l.object(maxName, func(key string) (err error) {
		if seen[key] {
			return l.errorf("tensor %q has %q twice", t.Name, key)
		}
		if seen[key] = true; len(seen) > 16 {
			return l.errorf("tensor %q has over 16 attributes", t.Name)
		}
		switch key {
		case "dtype":
			t.DType, err = l.text(32)
		case "shape":
			t.Shape, err = numbers(l, maxDims)
		case "data_offsets":
			offsets, err = numbers(l, 2)
		default: // the reference reader ignores what it does not know
			err = l.skip(8)
		}
		return err
	})
	if err != nil {
		return err
	}
	wrong := func(format string, args ...any) error {
		return bad("tensor "+strconv.Quote(t.Name), at, format, args...)
	}
	for _, key := range [...]string{"dtype", "shape", "data_offsets"} {
		if !seen[key] {
			return wrong("has no %s", key)
		}
	}
	width := dtypeBits(t.DType)
	if width == 0 {
		return wrong("unknown dtype %q", t.DType)
	}
	t.values = 1
	for _, d := range t.Shape {
		hi, lo := bits.Mul64(t.values, d)
		if hi != 0 || lo > maxValues {
			return wrong("shape %v is too large", t.Shape)
		}
		t.values = lo
	}
	if len(offsets) != 2 || offsets[1] < offsets[0] || offsets[1] > 1<<62 {
		return wrong("data_offsets %v, want begin and end", offsets)
	}
	size := t.values * width // < 2^56 · 2^6: no wrap
	if size%8 != 0 || size/8 != offsets[1]-offsets[0] {
		return wrong("%s of shape %v takes %d bits, data_offsets %v hold %d bytes", t.DType, t.Shape, size, offsets, offsets[1]-offsets[0])
	}
	t.Offset, t.Bytes = int64(offsets[0]), int64(offsets[1]-offsets[0])
	return nil
}

func numbers(l *lexer, limit int) ([]uint64, error) {
	out := []uint64{}
	err := l.array(func() error {
		if len(out) == limit {
			return l.errorf("over %d numbers", limit)
		}
		v, err := l.number()
		out = append(out, v)
		return err
	})
	return out, err
}

// place checks that the tensors tile the data area from its first to its last
// byte, as the format demands, and makes their offsets absolute.
func (f *File) place(data, size int64) error {
	order := make([]int, len(f.tensors))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := &f.tensors[a], &f.tensors[b]
		return cmp.Or(cmp.Compare(x.Offset, y.Offset), cmp.Compare(x.Bytes, y.Bytes))
	})
	end, last := int64(0), "the beginning"
	for _, i := range order {
		t := &f.tensors[i]
		field := "tensor " + strconv.Quote(t.Name)
		switch {
		case t.Offset < end:
			return bad(field, data+t.Offset, "overlaps %s, which ends at data offset %d", last, end)
		case t.Offset > end:
			return bad(field, data+t.Offset, "begins at data offset %d, leaving a hole after %s at %d", t.Offset, last, end)
		case t.Bytes > size-data-t.Offset:
			return bad(field, data+t.Offset, "ends at data offset %d, past the %d bytes of data", t.Offset+t.Bytes, size-data)
		}
		end, last = t.Offset+t.Bytes, field
		t.Offset += data
	}
	if end != size-data {
		return bad("data", data+end, "%d bytes follow the last tensor", size-data-end)
	}
	return nil
}

// scratch holds *[]byte buffers for the raw bytes of ReadFloats.
var scratch sync.Pool

// ReadFloats fills dst with the values of t from element first on. The error
// matches ErrType and names tensor and type when the type is not read.
func (f *File) ReadFloats(dst []float32, t Tensor, first uint64) error {
	decode, width := decoder(t.DType)
	if decode == nil {
		return fmt.Errorf("safetensors: tensor %q: %w %s: only F32, F16 and BF16 are read", t.Name, ErrType, t.DType)
	}
	n := uint64(len(dst))
	if n > t.values || first > t.values-n {
		return fmt.Errorf("safetensors: tensor %q: elements %d+%d of %d", t.Name, first, n, t.values)
	}
	p, _ := scratch.Get().(*[]byte)
	if p == nil {
		p = new([]byte)
	}
	defer scratch.Put(p)
	if size := n * width; uint64(cap(*p)) < size {
		*p = make([]byte, size)
	}
	b := (*p)[:n*width]
	if got, err := f.r.ReadAt(b, t.Offset+int64(first*width)); got < len(b) {
		return fmt.Errorf("safetensors: tensor %q: reading elements from %d: %w", t.Name, first, err)
	}
	decode(dst, b)
	return nil
}
