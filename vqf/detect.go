// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"encoding/binary"
	"fmt"
)

// span is one reading of data_offset and file_len.
type span struct{ data, end uint64 }

func spanAt(b []byte, fields int) span {
	at := tailOffset(fields)
	return span{binary.LittleEndian.Uint64(b[at:]), binary.LittleEndian.Uint64(b[at+8:])}
}

// plausible is docs/FORMAT.md section 2.3 without the file size.
func (s span) plausible(dirEnd uint64) bool {
	return s.data != 0 && s.end != 0 && s.data%Align == 0 && s.data >= dirEnd && s.end > s.data
}

// detectFields tells the two headers apart, docs/FORMAT.md section 2.3: the
// version does not, but only one of them puts a data_offset and a file_len
// that fit the file's size where the reader looks. It never guesses.
func detectFields(b []byte, h *Header, size uint64) (int, error) {
	dirEnd := uint64(DirOffset) + EntrySize*uint64(h.NTensors)
	tag := h.TrailerLen()
	var fit []int
	for _, fields := range []int{45, 41} {
		s := spanAt(b, fields)
		if s.plausible(dirEnd) && s.data < size && s.end <= ^uint64(0)-tag && s.end+tag == size {
			fit = append(fit, fields)
		}
	}
	if len(fit) == 1 {
		return fit[0], nil
	}
	if len(fit) == 2 {
		return 0, badField("header", 184, "header layout undetermined: both the 41-field and the 45-field reading fit")
	}
	return 0, undetermined(b, dirEnd, tag, size)
}

// undetermined explains why neither reading fits; a file cut short or with
// bytes after its end is by far the likeliest, and worth a sentence of its own.
func undetermined(b []byte, dirEnd, tag, size uint64) error {
	for _, fields := range []int{45, 41} {
		s := spanAt(b, fields)
		if !s.plausible(dirEnd) || s.end > ^uint64(0)-tag {
			continue
		}
		want := s.end + tag
		what := byteCount(size-want) + " too long: something was appended"
		if size < want {
			what = byteCount(want-size) + " short: copy it again"
		}
		return badField("file_len", int64(tailOffset(fields)+8),
			"header layout undetermined: %d + %d bytes of trailer = %d, but the file has %d bytes, %s", s.end, tag, want, size, what)
	}
	o, n := spanAt(b, 41), spanAt(b, 45)
	return badField("data_offset", 184,
		"header layout undetermined: neither data_offset %d, file_len %d (41 fields) nor %d, %d (45 fields, at offset 200) fits a directory that ends at %d in a file of %d bytes",
		o.data, o.end, n.data, n.end, dirEnd, size)
}

// DeclaredSize tells how long a file will be from its first 448 bytes, while
// it is still being written. ok is false if they are no VQF header or do not
// say.
func DeclaredSize(prefix []byte) (size int64, ok bool) {
	if len(prefix) < headerSize45 || binary.LittleEndian.Uint32(prefix) != Magic {
		return 0, false
	}
	h := Header{Flags: Flags(binary.LittleEndian.Uint32(prefix[8:])), NTensors: binary.LittleEndian.Uint32(prefix[12:])}
	if h.NTensors == 0 || h.NTensors > MaxTensors {
		return 0, false
	}
	dirEnd := uint64(DirOffset) + EntrySize*uint64(h.NTensors)
	found := 0
	for _, fields := range []int{45, 41} {
		s := spanAt(prefix, fields)
		if s.plausible(dirEnd) && s.end <= 1<<62 {
			size, found = int64(s.end+h.TrailerLen()), found+1
		}
	}
	return size, found == 1
}

// byteCount is "1 byte", "2 bytes" …
func byteCount(n uint64) string {
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}
