// SPDX-License-Identifier: Apache-2.0

package gguf_test

import (
	"encoding/binary"
)

// image builds GGUF bytes by hand, so that a test can lie in any field.
type image struct{ b []byte }

func newImage(version uint32, tensors, keys uint64) *image {
	m := &image{b: []byte("GGUF")}
	return m.u32(version).u64(tensors).u64(keys)
}

func (m *image) u32(v uint32) *image { m.b = binary.LittleEndian.AppendUint32(m.b, v); return m }
func (m *image) u64(v uint64) *image { m.b = binary.LittleEndian.AppendUint64(m.b, v); return m }
func (m *image) raw(b ...byte) *image {
	m.b = append(m.b, b...)
	return m
}

func (m *image) text(s string) *image {
	m.u64(uint64(len(s)))
	m.b = append(m.b, s...)
	return m
}

// key starts an entry: its value follows.
func (m *image) key(name string, typ uint32) *image { return m.text(name).u32(typ) }

func (m *image) array(name string, elem uint32, n uint64) *image {
	return m.key(name, 9).u32(elem).u64(n)
}

func (m *image) tensor(name string, typ uint32, off uint64, dims ...uint64) *image {
	m.text(name).u32(uint32(len(dims)))
	for _, d := range dims {
		m.u64(d)
	}
	return m.u32(typ).u64(off)
}

// data pads to the alignment and appends n bytes of tensor data.
func (m *image) data(alignment, n int) *image {
	for len(m.b)%alignment != 0 {
		m.b = append(m.b, 0)
	}
	m.b = append(m.b, make([]byte, n)...)
	return m
}
