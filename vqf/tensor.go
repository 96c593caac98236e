// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Tensor is a directory entry, docs/FORMAT.md section 3.1. Rows and Cols are
// what the directory says: their product gives Bytes, but q/k/v/o are listed
// transposed. [Arch.Shape] has the matrices' shapes.
type Tensor struct {
	Name       string
	Type       QType
	Rows, Cols uint32
	Offset     uint64 // from the start of the file, a multiple of 64
	Bytes      uint64 // without the padding
}

// maxName is the longest name; the field is 32 bytes and ends with a NUL.
const maxName = 31

// Places inside an entry.
const (
	entryType   = 32
	entryRows   = 36
	entryCols   = 40
	entryPad    = 44
	entryOffset = 48
	entryBytes  = 56
)

// decodeEntry reads entry i from its 64 bytes.
func decodeEntry(b []byte, i int) (Tensor, error) {
	at := entryAt(i)
	end := bytes.IndexByte(b[:entryType], 0)
	where := fmt.Sprintf("tensor %d name", i)
	switch {
	case end < 0:
		return Tensor{}, badField(where, at, "does not end with a NUL within 32 bytes")
	case end == 0:
		return Tensor{}, badField(where, at, "is empty")
	}
	for j, c := range b[:end] {
		if c <= ' ' || c > '~' {
			return Tensor{}, badField(where, at+int64(j), "holds the byte 0x%02x, which is not printable", c)
		}
	}
	if j := nonZero(b[end:entryType]); j >= 0 {
		return Tensor{}, badField(where, at+int64(end+j), "is followed by bytes that are not zero")
	}
	le := binary.LittleEndian
	t := Tensor{
		Name: string(b[:end]), Type: QType(le.Uint32(b[entryType:])),
		Rows: le.Uint32(b[entryRows:]), Cols: le.Uint32(b[entryCols:]),
		Offset: le.Uint64(b[entryOffset:]), Bytes: le.Uint64(b[entryBytes:]),
	}
	if le.Uint32(b[entryPad:]) != 0 {
		return t, t.bad(i, "pad", entryPad, "is not zero")
	}
	return t, nil
}

// appendEntry writes the entry's 64 bytes.
func (t *Tensor) appendEntry(b []byte) []byte {
	var name [entryType]byte
	copy(name[:maxName], t.Name)
	b = append(b, name[:]...)
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(t.Type))
	b = le.AppendUint32(b, t.Rows)
	b = le.AppendUint32(b, t.Cols)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint64(b, t.Offset)
	return le.AppendUint64(b, t.Bytes)
}

func entryAt(i int) int64 { return DirOffset + EntrySize*int64(i) }

// bad makes an error about one field of entry i.
func (t *Tensor) bad(i int, field string, within int64, format string, args ...any) *FormatError {
	return badField(fmt.Sprintf("tensor %q %s", t.Name, field), entryAt(i)+within, format, args...)
}
