// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"encoding/binary"
	"math"
)

// wordCoder walks 4-byte words in file order. Reading and writing share one
// list of fields that way, and cannot disagree about it.
type wordCoder interface {
	u32(*uint32)
	i32(*int32)
	f32(*float32)
}

// wordReader takes words off the front of its bytes; the caller gives enough.
type wordReader struct{ b []byte }

func (r *wordReader) next() uint32 {
	v := binary.LittleEndian.Uint32(r.b)
	r.b = r.b[4:]
	return v
}

func (r *wordReader) u32(p *uint32)  { *p = r.next() }
func (r *wordReader) i32(p *int32)   { *p = int32(r.next()) }
func (r *wordReader) f32(p *float32) { *p = math.Float32frombits(r.next()) }

// wordWriter appends words.
type wordWriter struct{ b []byte }

func (w *wordWriter) put(v uint32)   { w.b = binary.LittleEndian.AppendUint32(w.b, v) }
func (w *wordWriter) u32(p *uint32)  { w.put(*p) }
func (w *wordWriter) i32(p *int32)   { w.put(uint32(*p)) }
func (w *wordWriter) f32(p *float32) { w.put(math.Float32bits(*p)) }
