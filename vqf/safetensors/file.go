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

// Limits on what a header may claim. Its length and the depth are the reference
// reader's own limits. The others bound memory, which the reference reader does
// not, and are far above every published model.
const (
	maxHeader  = 100_000_000
	maxDepth   = 125 // arrays and objects within an attribute that nobody knows
	maxTensors = 65536
	maxName    = 1024
	maxNames   = 16 << 20 // bytes of all names
	maxDims    = 1 << 20  // of all shapes
	maxEntries = 1 << 20  // of the metadata
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

// readHeader takes equal names as the reference reader does: the last tensor of a
// name counts, the map of metadata may be there once.
func (f *File) readHeader(l *lexer) error {
	n, names, dims, metadata := 0, 0, maxDims, false
	var offsets [][]uint64
	err := l.object(maxName, func(name string) error {
		if name == "__metadata__" {
			if metadata {
				return l.errorf("duplicate key %q", name)
			}
			metadata = true
			return readMetadata(l)
		}
		t := Tensor{Name: name}
		at, err := t.read(l, dims)
		if err != nil {
			return err
		}
		dims -= len(t.Shape)
		names += len(name)
		if n++; n > maxTensors || names > maxNames {
			return l.errorf("over %d tensors or %d bytes of names", maxTensors, maxNames)
		}
		if i, dup := f.index[name]; dup {
			f.tensors[i], offsets[i] = t, at
			return nil
		}
		f.index[name] = len(f.tensors)
		f.tensors, offsets = append(f.tensors, t), append(offsets, at)
		return nil
	})
	if err != nil {
		return err
	}
	for i := range f.tensors { // only now: a tensor that another one replaces may be wrong
		if err := f.tensors[i].measure(offsets[i]); err != nil {
			return err
		}
	}
	return l.end()
}

// readMetadata checks the free-form map of strings, which nothing here uses and
// which may be null.
func readMetadata(l *lexer) error {
	b, err := l.token()
	if err != nil {
		return err
	}
	if l.back(); b == 'n' {
		return l.skipWord()
	}
	n := 0
	return l.list('{', '}', func() error {
		if n++; n > maxEntries {
			return l.errorf("over %d metadata entries", maxEntries)
		}
		if err := l.skipText(); err != nil {
			return err
		}
		if err := l.expect(':'); err != nil {
			return err
		}
		return l.skipText()
	})
}

// read takes dtype, shape of at most dims dimensions and data_offsets, each exactly
// once, and returns the latter.
func (t *Tensor) read(l *lexer, dims int) (offsets []uint64, err error) {
	known := [...]string{"dtype", "shape", "data_offsets"}
	var seen [len(known)]bool
	err = l.object(maxName, func(key string) (err error) {
		i := slices.Index(known[:], key)
		if i < 0 { // the reference reader ignores what it does not know
			return l.skip(maxDepth)
		}
		if seen[i] {
			return l.errorf("tensor %q has %q twice", t.Name, key)
		}
		seen[i] = true
		switch i {
		case 0:
			t.DType, err = l.text(32)
		case 1:
			t.Shape, err = numbers(l, dims)
		case 2:
			offsets, err = numbers(l, 2)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, key := range known {
		if !seen[i] {
			return nil, l.errorf("tensor %q has no %s", t.Name, key)
		}
	}
	if dtypeBits(t.DType) == 0 {
		return nil, l.errorf("tensor %q: unknown dtype %q", t.Name, t.DType)
	}
	if len(offsets) != 2 {
		return nil, l.errorf("tensor %q: data_offsets %v, want begin and end", t.Name, offsets)
	}
	return offsets, nil
}

// measure checks that the shape takes what lies between the offsets, and leaves these
// in Offset and Bytes, relative to the data area.
func (t *Tensor) measure(offsets []uint64) error {
	wrong := func(format string, args ...any) error {
		return bad("tensor "+strconv.Quote(t.Name), -1, format, args...)
	}
	t.values = 1
	hi := uint64(0)
	for _, d := range t.Shape {
		if hi, t.values = bits.Mul64(t.values, d); hi != 0 {
			return wrong("shape %s is too large", t.shape())
		}
	}
	hi, size := bits.Mul64(t.values, dtypeBits(t.DType))
	begin, end := offsets[0], offsets[1]
	switch {
	case hi != 0:
		return wrong("shape %s is too large", t.shape())
	case end < begin || end > 1<<62:
		return wrong("data_offsets %v, want begin and end", offsets)
	case size%8 != 0 || size/8 != end-begin:
		return wrong("%s of shape %s takes %d bits, data_offsets %v hold %d bytes", t.DType, t.shape(), size, offsets, end-begin)
	}
	t.Offset, t.Bytes = int64(begin), int64(end-begin)
	return nil
}

// shape is the shape for a message: the first dimensions when there are many.
func (t *Tensor) shape() string {
	const few = 8
	if len(t.Shape) > few {
		return fmt.Sprintf("%v and %d more", t.Shape[:few], len(t.Shape)-few)
	}
	return fmt.Sprint(t.Shape)
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
	end, last := int64(0), -1
	for _, i := range order {
		t := &f.tensors[i]
		switch {
		case t.Offset < end:
			return bad(f.field(i), data+t.Offset, "overlaps %s, which ends at data offset %d", f.field(last), end)
		case t.Offset > end:
			return bad(f.field(i), data+t.Offset, "begins at data offset %d, leaving a hole after %s at %d", t.Offset, f.field(last), end)
		case t.Bytes > size-data-t.Offset:
			return bad(f.field(i), data+t.Offset, "ends at data offset %d, past the %d bytes of data", t.Offset+t.Bytes, size-data)
		}
		end, last = t.Offset+t.Bytes, i
		t.Offset += data
	}
	if end != size-data {
		return bad("data", data+end, "%d bytes follow the last tensor", size-data-end)
	}
	return nil
}

// field is tensor i in messages, -1 what is before the first.
func (f *File) field(i int) string {
	if i < 0 {
		return "the beginning"
	}
	return "tensor " + strconv.Quote(f.tensors[i].Name)
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
