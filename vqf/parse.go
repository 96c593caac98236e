// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"errors"
	"fmt"
	"io"
)

// parsed is a file's header and directory.
type parsed struct {
	header  Header
	tensors []Tensor
	size    int64
}

// parse reads and checks all that lies before the data area, and nothing
// behind it. On an error the parts read so far are in the result.
func parse(r io.ReaderAt, size int64) (*parsed, error) {
	p := &parsed{size: size}
	head := make([]byte, min(size, DirOffset))
	if err := readFull(r, head, 0); err != nil {
		return p, err
	}
	var err error
	if p.header, err = decodeHeader(head, size); err != nil {
		return p, err
	}
	// The directory lies within the file: detection wants data_offset behind
	// it and before the end.
	dir := make([]byte, EntrySize*int(p.header.NTensors))
	if err := readFull(r, dir, DirOffset); err != nil {
		return p, err
	}
	for i := range int(p.header.NTensors) {
		t, err := decodeEntry(dir[EntrySize*i:EntrySize*(i+1)], i)
		if err != nil {
			return p, err
		}
		p.tensors = append(p.tensors, t)
	}
	if err := checkDirectory(&p.header, p.tensors); err != nil {
		return p, err
	}
	return p, checkFlags(&p.header, p.tensors)
}

// refuseEncrypted is the last structural question: what is encrypted is well
// formed, but there is nothing to compute with.
func (p *parsed) refuseEncrypted() error {
	if p.header.Flags&FlagEnc == 0 {
		return nil
	}
	return badField("flags", 8, "ENC is set: encrypted files are not supported by this build yet").as(ErrUnsupported)
}

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
