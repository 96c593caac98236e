// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
)

// OpenOptions says how much a file is checked beyond its structure and size.
// The zero value takes every layout and does not read the data.
type OpenOptions struct {
	Strict    bool  // refuse unless the layout bits equal those of Expect
	Expect    Flags // the engine's flags, for Strict
	FullCheck bool  // read the whole file and compare the checksum
}

// File is an open VQF file, mapped read-only. Its methods may be called at the
// same time from several goroutines. Slices from Data and Floats are views of
// the mapping: they must not be used after Close, must not be written to, and
// fault if the file is truncated under them.
type File struct {
	parsed
	path   string
	byName map[string]int
	f      *os.File

	mu   sync.RWMutex // guards data against Close
	data []byte       // the whole file; nil once closed

	q8once, q4once     sync.Once
	q8layout, q4layout Layout
	q8err, q4err       error
}

// Open maps a file after checking its header, directory, size and flags
// (docs/FORMAT.md sections 2, 3 and 4.2). It reads the first few KiB only,
// unless opt asks for a full check. Errors are *FormatError, *MismatchError or
// the system's.
func Open(path string, opt OpenOptions) (*File, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	p, err := parse(f, size)
	if err == nil {
		err = p.refuseEncrypted()
	}
	if err == nil && opt.Strict {
		err = checkStrict(p.header.Flags, opt.Expect)
	}
	if err == nil && opt.FullCheck {
		err = p.checkSum(context.Background(), nil)
	}
	if err != nil {
		_ = f.Close() // read-only: nothing is lost
		return nil, withPath(err, path)
	}
	data, err := mmap(f, size)
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("vqf: %s: map %d bytes: %w", path, size, err)
	}
	file := &File{parsed: *p, path: path, f: f, data: data, byName: make(map[string]int, len(p.tensors))}
	for i, t := range p.tensors {
		file.byName[t.Name] = i
	}
	return file, nil
}

// openRegular opens a regular file for reading.
func openRegular(path string) (*os.File, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("vqf: %w", err)
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("vqf: %s: is not a regular file", path)
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, st.Size(), nil
}

// Close unmaps the file. It may be called more than once; what Data and Floats
// returned is gone after the first time.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.data == nil {
		return nil
	}
	err := munmap(f.data)
	f.data = nil
	if cerr := f.f.Close(); err == nil {
		err = cerr
	}
	return err
}

// Path returns the path the file was opened by.
func (f *File) Path() string { return f.path }

// Size returns the file's length in bytes.
func (f *File) Size() int64 { return f.size }

// Header returns the header.
func (f *File) Header() Header { return f.header }

// Arch returns the architecture.
func (f *File) Arch() Arch { return f.header.Arch }

// Flags returns the flag word.
func (f *File) Flags() Flags { return f.header.Flags }

// Tensors returns the directory in file order.
func (f *File) Tensors() []Tensor { return slices.Clone(f.tensors) }

// Tensor returns the entry of that name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.byName[name]
	if !ok {
		return Tensor{}, false
	}
	return f.tensors[i], true
}

// HasQ8 says whether the file holds q8_* tensors.
func (f *File) HasQ8() bool { _, ok := f.byName["q8_q"]; return ok }

// HasQ4 says whether the file holds q4_* tensors.
func (f *File) HasQ4() bool { _, ok := f.byName["q4_q"]; return ok }

// HasVision says whether the file holds vision tensors, whatever the source
// model had (docs/FORMAT.md section 11.5).
func (f *File) HasVision() bool { _, ok := f.byName["v_patch_embed"]; return ok }

// Data returns a tensor's bytes, without padding, as a view of the mapping.
// The error is an unknown name or a closed file.
func (f *File) Data(name string) ([]byte, error) {
	t, ok := f.Tensor(name)
	if !ok {
		return nil, fmt.Errorf("vqf: %s: no tensor %q: %w", f.path, name, ErrFormat)
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.data == nil {
		return nil, fmt.Errorf("vqf: %s: tensor %q: %w", f.path, name, os.ErrClosed)
	}
	// checkBounds held offset and bytes to file_len, which is within the file.
	return f.data[t.Offset : t.Offset+t.Bytes : t.Offset+t.Bytes], nil
}

// Floats returns an F32 tensor's values as a view of the mapping. The error is
// an unknown name, another type, or a closed file.
func (f *File) Floats(name string) ([]float32, error) {
	t, ok := f.Tensor(name)
	if ok && t.Type != F32 {
		return nil, fmt.Errorf("vqf: %s: tensor %q is %s, not F32: %w", f.path, name, t.Type, ErrFormat)
	}
	b, err := f.Data(name)
	if err != nil {
		return nil, err
	}
	return floats(b)
}

// Tokenizer returns a copy of the embedded tokenizer.json, or nil if the file
// has none or it cannot be read.
func (f *File) Tokenizer() []byte { b, _ := f.extra(NameTokenizer); return b }

// Meta returns a copy of the embedded metadata (JSON), or nil as Tokenizer does.
func (f *File) Meta() []byte { b, _ := f.extra(NameMeta); return b }

// Q8Layout says how the text q8_* tensors are laid out, docs/FORMAT.md section
// 6.10. The flag decides where it can; where it is clear the file's metadata
// does, and else a look at the scales. The error is a file without q8_*
// tensors, or one that fits two layouts or none; the answer is kept.
func (f *File) Q8Layout() (Layout, error) {
	f.q8once.Do(func() { f.q8layout, f.q8err = f.findQ8Layout() })
	return f.q8layout, withPath(f.q8err, f.path)
}

// Q4Layout is Q8Layout for the q4_* tensors.
func (f *File) Q4Layout() (Layout, error) {
	f.q4once.Do(func() { f.q4layout, f.q4err = f.findQ4Layout() })
	return f.q4layout, withPath(f.q4err, f.path)
}
