// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// parsed is a file's header and directory.
type parsed struct {
	header  Header
	tensors []Tensor
	size    int64
	r       io.ReaderAt // the file as it is stored
	plain   io.ReaderAt // the same, deciphered; r until unlock
}

// parse reads and checks all that lies before the data area, and nothing
// behind it. On an error the parts read so far are in the result.
func parse(r io.ReaderAt, size int64) (*parsed, error) {
	p := &parsed{size: size, r: r, plain: r}
	if err := p.readHeader(); err != nil {
		return p, err
	}
	if err := p.readDirectory(); err != nil {
		return p, err
	}
	if err := checkDirectory(&p.header, p.tensors); err != nil {
		return p, err
	}
	return p, checkFlags(&p.header, p.tensors)
}

func (p *parsed) readHeader() error {
	head := make([]byte, min(p.size, DirOffset))
	if err := readFull(p.r, head, 0); err != nil {
		return err
	}
	var err error
	p.header, err = decodeHeader(head, p.size)
	return err
}

// readDirectory reads the entries. They lie within the file: a header is
// accepted only with data_offset behind them and before the end.
func (p *parsed) readDirectory() error {
	dir := make([]byte, EntrySize*int(p.header.NTensors))
	if err := readFull(p.r, dir, DirOffset); err != nil {
		return err
	}
	for i := range int(p.header.NTensors) {
		t, err := decodeEntry(dir[EntrySize*i:EntrySize*(i+1)], i)
		if err != nil {
			return err
		}
		p.tensors = append(p.tensors, t)
	}
	return nil
}

// find returns the entry of that name, nil if there is none.
func (p *parsed) find(name string) *Tensor {
	for i := range p.tensors {
		if p.tensors[i].Name == name {
			return &p.tensors[i]
		}
	}
	return nil
}

// extra reads an embedded entry, without the zeros that fill it up; nil if
// there is none. It reads by the descriptor, not through a mapping: a failing
// disk is an error here, and no fault. Memory goes by what is there, not by what
// the directory says: a file with holes can say much.
func (p *parsed) extra(name string) ([]byte, error) {
	t := p.find(name)
	if t == nil {
		return nil, nil
	}
	n, err := p.lastByte(t)
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	return b, readFull(p.plain, b, int64(t.Offset))
}

// lastByte returns how many bytes of a tensor there are up to the last one that
// is not zero.
func (p *parsed) lastByte(t *Tensor) (uint64, error) {
	buf := make([]byte, min(t.Bytes, 256<<10))
	zeros := make([]byte, len(buf))
	for n := t.Bytes; n > 0; {
		part := buf[:min(n, uint64(len(buf)))]
		n -= uint64(len(part))
		if err := readFull(p.plain, part, int64(t.Offset+n)); err != nil {
			return 0, err
		}
		if !bytes.Equal(part, zeros[:len(part)]) {
			return n + uint64(len(bytes.TrimRight(part, "\x00"))), nil
		}
	}
	return 0, nil
}

// encrypted says whether the data area is enciphered.
func (p *parsed) encrypted() bool { return p.header.Flags&FlagEnc != 0 }

// readFull reads all of b or says where the file ended.
func readFull(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return badField("file", at+int64(n), "ends while %d bytes from offset %d are read: it was cut short", len(b), at)
	}
	return fmt.Errorf("vqf: read at offset %d: %w", at+int64(n), err)
}
