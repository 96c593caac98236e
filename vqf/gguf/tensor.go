// SPDX-License-Identifier: Apache-2.0

package gguf

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// Tensor is one entry of the directory.
type Tensor struct {
	Name   string
	Type   Type
	Dims   []uint64 // as in the file: Dims[0] is the row length (fastest)
	Offset int64    // of the first byte, in the file
	Bytes  int64    // of the data, without padding
	values uint64   // product of Dims
}

// Values is the number of elements.
func (t Tensor) Values() uint64 { return t.values }

// Cols is the length of a row, Dims[0].
func (t Tensor) Cols() uint64 { return t.Dims[0] }

// Rows is the number of rows, the product of the other dimensions.
func (t Tensor) Rows() uint64 { return t.values / t.Dims[0] }

func (f *File) readTensors(c *cursor, n int) error {
	for i := range n {
		c.item("tensor", i, "")
		name, err := c.text(maxNameLen)
		if err != nil {
			return err
		}
		if name == "" || !utf8.ValidString(name) {
			return c.errorf("name %q is empty or no UTF-8", name)
		}
		if _, dup := f.index[name]; dup {
			return c.errorf("duplicate tensor %q", name)
		}
		c.item("tensor", i, name)
		t := Tensor{Name: name}
		if err := t.read(c); err != nil {
			return err
		}
		if uint64(t.Offset)%f.alignment != 0 {
			return c.errorf("offset %d is no multiple of the alignment %d", t.Offset, f.alignment)
		}
		f.index[name] = len(f.tensors)
		f.tensors = append(f.tensors, t)
	}
	return f.place(c.pos)
}

// read takes shape, type and relative offset of a tensor.
func (t *Tensor) read(c *cursor) error {
	dims, err := c.u32()
	if err != nil {
		return err
	}
	if dims < 1 || dims > 4 {
		return c.errorf("%d dimensions, want 1 to 4", dims)
	}
	t.values = 1
	t.Dims = make([]uint64, dims)
	for i := range t.Dims {
		if t.Dims[i], err = c.u64(); err != nil {
			return err
		}
		hi, lo := bits.Mul64(t.values, t.Dims[i])
		if t.Dims[i] == 0 || hi != 0 || lo > 1<<56 {
			return c.errorf("shape %v is empty or too large", t.Dims[:i+1])
		}
		t.values = lo
	}
	typ, err := c.u32()
	if err != nil {
		return err
	}
	t.Type = Type(typ)
	info, ok := t.Type.info()
	if !ok {
		return fmt.Errorf("%w: %w", c.errorf("unknown %s", t.Type), ErrType)
	}
	if t.Dims[0]%info.elements != 0 {
		return c.errorf("rows of %d values do not divide into %s blocks of %d", t.Dims[0], info.name, info.elements)
	}
	t.Bytes = int64(t.values / info.elements * info.bytes) // < 2^56 · 8 / 1: no wrap
	off, err := c.u64()
	if err != nil {
		return err
	}
	if off > 1<<62 {
		return c.errorf("offset %d is past the end of any file", off)
	}
	t.Offset = int64(off)
	return nil
}

// place turns the offsets into file offsets, now that the end of the
// directory is known, and checks that each tensor lies inside the file and
// none overlaps another.
func (f *File) place(end int64) error {
	data := int64((uint64(end) + f.alignment - 1) &^ (f.alignment - 1))
	room := f.size - data
	order := make([]int, len(f.tensors))
	for i := range f.tensors {
		t := &f.tensors[i]
		if room < 0 || t.Bytes > room || t.Offset > room-t.Bytes {
			return t.errorf(t.Offset, "%d bytes at data offset %d do not fit into the %d bytes of data: the file is cut off or damaged, copy it again", t.Bytes, t.Offset, max(room, 0))
		}
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(f.tensors[a].Offset, f.tensors[b].Offset) })
	for i := 1; i < len(order); i++ {
		a, b := &f.tensors[order[i-1]], &f.tensors[order[i]]
		if a.Offset+a.Bytes > b.Offset {
			return b.errorf(data+b.Offset, "overlaps tensor %q, which ends at byte %d", a.Name, data+a.Offset+a.Bytes)
		}
	}
	for i := range f.tensors { // all or none, for Inspect
		f.tensors[i].Offset += data
	}
	f.dataOffset = data
	return nil
}

func (t *Tensor) errorf(offset int64, format string, args ...any) error {
	return &FormatError{Field: fmt.Sprintf("tensor %q", t.Name), Offset: offset, Msg: fmt.Sprintf(format, args...)}
}

// Tensors returns the directory in file order; the shapes are shared and
// must not be changed.
func (f *File) Tensors() []Tensor { return slices.Clone(f.tensors) }

// Tensor returns the entry called name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.index[name]
	if !ok {
		return Tensor{}, false
	}
	return f.tensors[i], true
}

// ReadFloats fills dst with the values of t from element first on. Both first
// and len(dst) must be multiples of the type's block. The error matches ErrType
// and names tensor and type when the type is not readable.
func (f *File) ReadFloats(dst []float32, t Tensor, first uint64) error {
	info, ok := t.Type.info()
	if !ok || info.decode == nil {
		return fmt.Errorf("gguf: tensor %q: %w %s", t.Name, ErrType, t.Type)
	}
	n := uint64(len(dst))
	if n > t.values || first > t.values-n || first%info.elements != 0 || n%info.elements != 0 {
		return fmt.Errorf("gguf: tensor %q: elements %d+%d of %d are not whole %s blocks", t.Name, first, n, t.values, info.name)
	}
	size := int(n / info.elements * info.bytes)
	p, _ := f.scratch.Get().(*[]byte)
	if p == nil {
		p = new([]byte)
	}
	defer f.scratch.Put(p)
	if cap(*p) < size {
		*p = make([]byte, size)
	}
	b := (*p)[:size]
	if got, err := f.r.ReadAt(b, t.Offset+int64(first/info.elements*info.bytes)); got < size {
		return fmt.Errorf("gguf: tensor %q: reading elements from %d: %w", t.Name, first, err)
	}
	info.decode(dst, b)
	return nil
}
