// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"fmt"
	"testing"
	"time"
)

// eachImplementationB is eachImplementation for benchmarks.
func eachImplementationB(b *testing.B, f func(b *testing.B)) {
	saved := make([]bool, len(features))
	for i, ft := range features {
		saved[i] = *ft.use
	}
	for i, ft := range features {
		if ft.has && saved[i] {
			b.Run(ft.name, f)
		}
		*ft.use = false
	}
	b.Run(generic, f)
	for i, ft := range features {
		*ft.use = saved[i]
	}
}

// BenchmarkMatMul: weights in cache (1 MiB of codes) and in memory (64 MiB and
// more), one token and a prefill tile. MB/s are of weights.
func BenchmarkMatMul(b *testing.B) {
	for _, size := range []struct {
		name       string
		rows, cols int
	}{{"cache", 1024, 1024}, {"memory", 16384, 4096}} {
		b.Run(size.name, func(b *testing.B) {
			for _, l := range layouts {
				data := make([]byte, size.rows*size.cols/BlockLen*l.BlockBytes())
				r := newRand(1)
				for i := range data {
					data[i] = byte(r.Uint32())
					if i%l.GroupBytes() < 2*l.Rows() && i%2 == 1 {
						data[i] = 0x20 // a scale around 0.01
					}
				}
				m, err := NewMatrix(data, size.rows, size.cols, l)
				if err != nil {
					b.Fatal(err)
				}
				for _, tokens := range []int{1, 64} {
					b.Run(fmt.Sprintf("%v/tokens=%d", l, tokens), func(b *testing.B) {
						eachImplementationB(b, func(b *testing.B) { benchMatMul(b, &m, tokens) })
					})
				}
			}
		})
	}
}

func benchMatMul(b *testing.B, m *Matrix, tokens int) {
	a := NewActs(tokens, m.Cols)
	a.Quantize(randFloats(newRand(2), tokens*m.Cols, "normal"), tokens)
	dst := make([]float32, tokens*m.Rows)
	b.SetBytes(int64(len(m.Data)))
	for b.Loop() {
		MatMul(dst, m.Rows, m, a, 0, m.Rows)
	}
	ops := 2 * float64(m.Rows) * float64(m.Cols) * float64(tokens)
	b.ReportMetric(ops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GOPS")
}

// BenchmarkFloat: the other operations, on lengths of a small model. MB/s are of
// the values read.
func BenchmarkFloat(b *testing.B) {
	const n = 4096
	r := newRand(3)
	x, y, z := randFloats(r, n, "normal"), randFloats(r, n, "normal"), make([]float32, n)
	h := randF16(r, n)
	acts := NewActs(1, n)
	for _, c := range []struct {
		name  string
		bytes int
		run   func()
	}{
		{"dot", 8 * n, func() { z[0] = Dot(x, y) }},
		{"rmsnorm", 4 * n, func() { RMSNorm(z, x, y, 1e-5) }},
		{"rope", 4 * n, func() { RopeHalf(z, x[:n/2], y[:n/2]) }},
		{"silu", 8 * n, func() { SiluMul(z, x, y) }},
		{"add", 8 * n, func() { Add(z, x) }},
		{"add scaled", 8 * n, func() { AddScaled(z, x, 0.5) }},
		{"f16 to f32", 2 * n, func() { F16ToF32Slice(z, h[:n]) }},
		{"f32 to f16", 4 * n, func() { F32ToF16Slice(h[:n], x) }},
		{"quantize", 4 * n, func() { acts.Quantize(x, 1) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			eachImplementationB(b, func(b *testing.B) {
				b.SetBytes(int64(c.bytes))
				for b.Loop() {
					c.run()
				}
			})
		})
	}
}

// BenchmarkWeights: what the converter does. MB/s are of float32 values.
func BenchmarkWeights(b *testing.B) {
	const rows, cols = 64, 4096
	x := randFloats(newRand(4), rows*cols, "normal")
	row := make([]byte, rows*cols/BlockLen*Q8BlockBytes)
	dst := make([]byte, len(row))
	half := row[:rows*cols/BlockLen*Q4BlockBytes]
	for _, c := range []struct {
		name string
		run  func()
	}{
		{"quantise q8", func() { QuantizeQ8(row, x) }},
		{"quantise q4", func() { QuantizeQ4(half, x) }},
		{"quantise g256", func() { QuantizeG256(row, x) }},
		{"repack q8 8x8", func() { Repack(dst, row, rows, cols, Q8x8) }},
		{"repack q4 4x4", func() { Repack(dst[:len(half)], half, rows, cols, Q4x4) }},
		{"dequantise q8 8x8", func() {
			m := Matrix{Data: row, Rows: rows, Cols: cols, Layout: Q8x8}
			for r := range rows {
				m.DequantizeRow(x[r*cols:][:cols], r)
			}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(4 * rows * cols)
			for b.Loop() {
				c.run()
			}
		})
	}
}

// BenchmarkAttention: some rows over a context, in one tile. pair-ns is for a row
// and a position; the second cache holds 2048 positions, none holds 65536.
func BenchmarkAttention(b *testing.B) {
	for _, hd := range []int{64, 128} {
		for _, c := range []struct{ rows, step, n int }{{1, 1, 2048}, {2, 2, 2048}, {3, 3, 2048}, {8, 8, 2048}, {48, 2, 2048}, {2, 2, 65536}} {
			for _, kv := range []KV{KVF16, KVInt8} {
				b.Run(fmt.Sprintf("head=%d/rows=%d/context=%d/%v", hd, c.rows, c.n, kv), func(b *testing.B) {
					size := kv.GroupBytes(hd)
					keys, values := make([]byte, c.n/KVGroup*size), make([]byte, c.n/KVGroup*size)
					x := randFloats(newRand(1), c.rows*hd, "normal")
					for i := range c.n {
						kv.StoreKey(keys[i/KVGroup*size:], i%KVGroup, x[:hd])
						kv.StoreValue(values[i/KVGroup*size:], i%KVGroup, x[:hd])
					}
					t, acc, block := NewAttnTile(c.rows, hd), NewAttnPart(c.rows, hd), NewAttnPart(c.rows, hd)
					for r := range c.rows {
						t.SetQuery(r, x[r*hd:][:hd], 0.1)
					}
					eachImplementationB(b, func(b *testing.B) {
						best := time.Hour
						for b.Loop() {
							start := time.Now()
							for at := 0; at < c.n; at += AttnBlock {
								from := at / KVGroup * size
								t.Block(block, kv, keys[from:], values[from:], AttnBlock, c.step)
								if at > 0 {
									acc.Merge(block)
								}
							}
							best = min(best, time.Since(start))
						}
						pairs := float64(c.rows * c.n)
						b.ReportMetric(float64(best.Nanoseconds())/pairs, "pair-ns")
						b.ReportMetric(4*float64(hd)*pairs/float64(best.Nanoseconds()), "GFLOPS")
					})
				})
			}
		}
	}
}
