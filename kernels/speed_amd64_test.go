// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// each selects every feature level in turn, without generic.
func each(b *testing.B, f func(b *testing.B)) {
	saved := make([]bool, len(features))
	for i, ft := range features {
		saved[i] = *ft.use
	}
	defer func() {
		for i, ft := range features {
			*ft.use = saved[i]
		}
	}()
	for i, ft := range features {
		if saved[i] && ft.name != "avx512" { // no matrix kernel of its own
			b.Run(ft.name, f)
		}
		*ft.use = false
	}
}

// BenchmarkStream multiplies one token by 1 GiB of weights and compares with
// SumWords, which does nothing but read. The two alternate by pieces of 16 MiB,
// each far from the last, so that both meet the same neighbours on the machine:
// of-read is the median of the ratios of two that follow each other,
// best-of-read the ratio of the best speeds. On a busy machine, chrt -f 20 before
// the test binary keeps other processes off its CPU.
func BenchmarkStream(b *testing.B) {
	data := streamed(b)
	for _, l := range layouts {
		for _, cols := range []int{1024, 2048, 4096, 6144, 12288} {
			b.Run(fmt.Sprintf("%v/cols=%d", l, cols), func(b *testing.B) { stream(b, data, l, cols, 1) })
		}
	}
}

// BenchmarkStreamTokens is BenchmarkStream for some tokens at once, as a batch of
// sequences has them: they shall cost little more than one.
func BenchmarkStreamTokens(b *testing.B) {
	data := streamed(b)
	for _, l := range layouts {
		for _, cols := range []int{1024, 2048, 6144} {
			for _, tokens := range []int{1, 2, 3, 4, 6, 8, 16, 64} {
				b.Run(fmt.Sprintf("%v/cols=%d/%d", l, cols, tokens), func(b *testing.B) { stream(b, data, l, cols, tokens) })
			}
		}
	}
}

const streamSize, streamPiece = 1 << 30, 16 << 20

// streamed is memory for weights, none of it untouched.
func streamed(b *testing.B) []byte {
	data, err := unix.Mmap(-1, 0, streamSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { unix.Munmap(data) })
	if err := unix.Madvise(data, unix.MADV_HUGEPAGE); err != nil {
		b.Fatal(err)
	}
	for i := 0; i < len(data); i += 8 {
		data[i] = byte(i>>3*37) | 1
	}
	return data
}

func stream(b *testing.B, data []byte, l Layout, cols, tokens int) {
	rowBytes := cols / BlockLen * l.BlockBytes()
	rows := streamPiece / rowBytes / 8 * 8
	dst := make([]float32, tokens*rows)
	each(b, func(b *testing.B) {
		a := NewActs(tokens, cols)
		a.Quantize(randFloats(newRand(1), tokens*cols, "normal"), tokens)
		var read, mul []float64
		for range b.N {
			for at := 0; at < streamSize; at += streamPiece {
				t0 := time.Now()
				SumWords(data[at:][:streamPiece], fetchAhead)
				t1 := time.Now()
				far := (at + streamSize/2) % streamSize
				m := Matrix{Data: data[far:][:rows*rowBytes], Rows: rows, Cols: cols, Layout: l}
				MatMul(dst, rows, &m, a, 0, rows)
				t2 := time.Now()
				read = append(read, streamPiece/t1.Sub(t0).Seconds()/1e9)
				mul = append(mul, float64(len(m.Data))/t2.Sub(t1).Seconds()/1e9)
			}
		}
		reportStream(b, read, mul)
	})
}

// reportStream reports GB/s of some work and of reading, which took turns; the
// median of the work's.
func reportStream(b *testing.B, read, work []float64) float64 {
	ratio := make([]float64, len(work))
	for i := range work {
		ratio[i] = work[i] / read[i]
	}
	gbs := middle(work)
	b.ReportMetric(gbs, "GB/s")
	b.ReportMetric(middle(ratio), "of-read")
	b.ReportMetric(slices.Max(work)/slices.Max(read), "best-of-read")
	b.ReportMetric(0, "ns/op")
	return gbs
}

func middle(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// BenchmarkTokens multiplies 1024 x 1024 weights, that stay in the second cache,
// by some tokens. best-GOPS is the best single product: on a shared machine the
// mean tells more of the neighbours.
func BenchmarkTokens(b *testing.B) {
	const n = 1024
	for _, l := range layouts {
		m := arrange(b, randBlocks(newRand(2), n*n/BlockLen, l.Q8(), "random"), n, n, l)
		for _, tokens := range []int{1, 2, 8, 64, 512} {
			b.Run(fmt.Sprintf("%v/%d", l, tokens), func(b *testing.B) {
				each(b, func(b *testing.B) {
					a := NewActs(tokens, n)
					a.Quantize(randFloats(newRand(3), tokens*n, "normal"), tokens)
					dst := make([]float32, tokens*n)
					best := time.Hour
					for b.Loop() {
						t0 := time.Now()
						MatMul(dst, n, &m, a, 0, n)
						best = min(best, time.Since(t0))
					}
					ops := 2 * float64(n*n*tokens)
					b.ReportMetric(ops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GOPS")
					b.ReportMetric(ops/best.Seconds()/1e9, "best-GOPS")
				})
			})
		}
	}
}
