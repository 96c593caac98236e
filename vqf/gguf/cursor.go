// SPDX-License-Identifier: Apache-2.0

package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
)

// cursor walks the metadata front to back through one fixed buffer, so that
// parsing takes the same memory whatever lengths the file claims. Every read
// is checked against limit before it is made.
type cursor struct {
	r     io.ReaderAt
	limit int64 // bytes that may be read: file size or metadata bound
	pos   int64 // file offset of the next byte

	buf   []byte // window of the file
	start int64  // file offset of buf[0]
	end   int64  // file offset just past the window's valid bytes

	texts int64 // strings of arrays that were walked

	kind  string // what is being read, for errors: "key", "tensor", or a part of the header
	name  string // its name, "" for the one at index
	index int    // -1 for a part of the header
	begin int64  // where it began
}

func newCursor(r io.ReaderAt, limit int64) *cursor {
	return &cursor{r: r, limit: limit, buf: make([]byte, 64<<10)}
}

// at says that a part of the header is read next.
func (c *cursor) at(kind string) { c.kind, c.name, c.index, c.begin = kind, "", -1, c.pos }

// item says that a key or tensor is read next; name is "" while it is not known.
func (c *cursor) item(kind string, index int, name string) {
	c.kind, c.name, c.index, c.begin = kind, name, index, c.pos
}

// field is what is being read. It is put together for errors alone: a directory of
// thousands is walked in a moment and without garbage.
func (c *cursor) field() string {
	switch {
	case c.index < 0:
		return c.kind
	case c.name == "":
		return fmt.Sprintf("%s %d", c.kind, c.index)
	}
	return fmt.Sprintf("%s %q", c.kind, c.name)
}

func (c *cursor) errorf(format string, args ...any) error {
	return &FormatError{Field: c.field(), Offset: c.begin, Msg: fmt.Sprintf(format, args...)}
}

// next returns the following n bytes, valid until the next call; n must not
// exceed the buffer.
func (c *cursor) next(n int) ([]byte, error) {
	if int64(n) > c.limit-c.pos {
		return nil, c.errorf("file ends after %d bytes, %d more are needed", c.limit, int64(n)-(c.limit-c.pos))
	}
	if c.pos < c.start || c.pos+int64(n) > c.end {
		want := min(int64(len(c.buf)), c.limit-c.pos)
		got, err := c.r.ReadAt(c.buf[:want], c.pos)
		if int64(got) < want {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("gguf: %s at byte %d: %w", c.field(), c.pos, err)
		}
		c.start, c.end = c.pos, c.pos+want
	}
	b := c.buf[c.pos-c.start:][:n]
	c.pos += int64(n)
	return b, nil
}

// skip moves past n bytes without reading them.
func (c *cursor) skip(n int64) error {
	if n < 0 || n > c.limit-c.pos {
		return c.errorf("%d bytes reach past the end at byte %d", n, c.limit)
	}
	c.pos += n
	return nil
}

func (c *cursor) u32() (uint32, error) {
	b, err := c.next(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (c *cursor) u64() (uint64, error) {
	b, err := c.next(8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// length reads a u64 byte count that must not exceed bound nor the rest of
// the file.
func (c *cursor) length(bound int64) (int64, error) {
	n, err := c.u64()
	if err != nil {
		return 0, err
	}
	if n > uint64(bound) {
		return 0, c.errorf("length %d exceeds the limit of %d", n, bound)
	}
	if int64(n) > c.limit-c.pos {
		return 0, c.errorf("length %d reaches past the end at byte %d", n, c.limit)
	}
	return int64(n), nil
}

// text reads a length-prefixed string of at most bound bytes.
func (c *cursor) text(bound int64) (string, error) {
	n, err := c.length(bound)
	if err != nil {
		return "", err
	}
	if n <= int64(len(c.buf)) {
		b, err := c.next(int(n))
		return string(b), err
	}
	b := make([]byte, n) // n is within the file and the bound
	if got, err := c.r.ReadAt(b, c.pos); int64(got) < n {
		return "", fmt.Errorf("gguf: %s at byte %d: %w", c.field(), c.pos, err)
	}
	c.pos += n
	return string(b), nil
}
