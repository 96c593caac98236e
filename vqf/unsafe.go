// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"encoding/binary"
	"fmt"
	"unsafe"
)

// floats views bytes as little-endian float32 without copying. It is legal
// because float32 has no invalid bit pattern and the bytes are checked to be
// aligned and whole; the result lives as long as b does. On a big-endian
// machine there is no such view, and that is an error.
func floats(b []byte) ([]float32, error) {
	const size = int(unsafe.Sizeof(float32(0)))
	if len(b) == 0 {
		return nil, nil
	}
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return nil, fmt.Errorf("vqf: no view of little-endian floats on this machine: %w", ErrUnsupported)
	}
	if len(b)%size != 0 || uintptr(unsafe.Pointer(&b[0]))%uintptr(size) != 0 {
		return nil, fmt.Errorf("vqf: %d bytes are no aligned float32 array: %w", len(b), ErrFormat)
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/size), nil
}
