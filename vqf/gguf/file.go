// SPDX-License-Identifier: Apache-2.0

package gguf

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// Limits on what a file may claim. They are far above every published model
// and bound both time and memory of parsing.
const (
	maxKeys      = 4096
	maxTensors   = 65536
	maxMetadata  = 128 << 20 // bytes of header, metadata and directory
	maxKeyLen    = 1024
	maxNameLen   = 255
	maxText      = 4 << 20  // one string value
	maxTextTotal = 16 << 20 // all string values
	maxElements  = 4 << 20  // of one metadata array of numbers
	maxTexts     = 2 << 20  // of all metadata arrays of strings
	maxArrayText = 32 << 20 // bytes of one such array, lengths included
	maxAlignment = 1 << 20
)

const magic = "GGUF"

// File is an open GGUF file. Its methods may be called concurrently.
type File struct {
	r          io.ReaderAt
	closer     io.Closer // nil when the caller owns r
	size       int64
	version    uint32
	alignment  uint64
	dataOffset int64
	keys       []string
	values     map[string]value
	tensors    []Tensor
	index      map[string]int
	counted    bool      // version and counts were read
	scratch    sync.Pool // *[]byte, raw bytes of ReadFloats
}

// Open opens the file at path and checks its metadata and tensor directory.
// No tensor data is read.
func Open(path string) (*File, error) {
	f, err := Inspect(path)
	if err != nil {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
		return nil, err
	}
	return f, nil
}

// Inspect is Open for a listing of what may be wrong: when the version and the counts
// could be read, the File is not nil beside the error and has the keys and tensors
// that stand before what is wrong. Their Offset then counts from the data area, whose
// place, DataOffset, is 0, and nothing says that they lie in the file. It must be
// closed in any case.
func Inspect(path string) (*File, error) {
	o, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	st, err := o.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		o.Close() // nothing was written: only the first error matters
		return nil, fmt.Errorf("gguf: %s: %w", path, err)
	}
	f := newFile(o, st.Size())
	if err = f.load(); err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	if err != nil && !f.counted {
		o.Close() // as above
		return nil, err
	}
	f.closer = o
	return f, err
}

// New reads the metadata and tensor directory of the size bytes of r, which
// must stay readable for as long as the File is used.
func New(r io.ReaderAt, size int64) (*File, error) {
	f := newFile(r, size)
	if err := f.load(); err != nil {
		return nil, err
	}
	return f, nil
}

func newFile(r io.ReaderAt, size int64) *File {
	return &File{r: r, size: size, alignment: 32, values: map[string]value{}, index: map[string]int{}}
}

func (f *File) load() error {
	c := newCursor(f.r, min(f.size, maxMetadata))
	c.at("magic")
	b, err := c.next(4)
	if err != nil {
		return err
	}
	if string(b) != magic {
		return c.errorf("%q, want %q", b, magic)
	}
	c.at("version")
	if f.version, err = c.u32(); err != nil {
		return err
	}
	switch {
	case f.version == 2 || f.version == 3:
	case f.version&0xffff == 0:
		return c.errorf("big-endian file (0x%08x): only little-endian files are read", f.version)
	default:
		return c.errorf("version %d, versions 2 and 3 are read", f.version)
	}
	c.at("tensor count")
	tensors, err := c.u64()
	if err != nil {
		return err
	}
	if tensors > maxTensors {
		return c.errorf("%d exceeds the limit of %d", tensors, maxTensors)
	}
	c.at("key count")
	keys, err := c.u64()
	if err != nil {
		return err
	}
	if keys > maxKeys {
		return c.errorf("%d exceeds the limit of %d", keys, maxKeys)
	}
	f.counted = true
	if err := f.readKeys(c, int(keys)); err != nil {
		return err
	}
	if err := f.readAlignment(); err != nil {
		return err
	}
	return f.readTensors(c, int(tensors))
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

// Version is the format version, 2 or 3.
func (f *File) Version() uint32 { return f.version }

// Size is the number of bytes of the file.
func (f *File) Size() int64 { return f.size }

// Alignment is general.alignment, 32 when the file has none.
func (f *File) Alignment() uint64 { return f.alignment }

// DataOffset is the byte at which tensor data begins.
func (f *File) DataOffset() int64 { return f.dataOffset }

// readAlignment takes general.alignment, which must be a power of two so that
// rounding up is the same for every reader.
func (f *File) readAlignment() error {
	const key = "general.alignment"
	n, err := f.Uint(key)
	if errors.Is(err, ErrNoKey) {
		return nil
	}
	if err != nil {
		return err
	}
	if n == 0 || n > maxAlignment || n&(n-1) != 0 {
		return &FormatError{Field: "key \"" + key + "\"", Offset: f.values[key].at, Msg: fmt.Sprintf("%d is not a power of two up to %d", n, maxAlignment)}
	}
	f.alignment = n
	return nil
}
