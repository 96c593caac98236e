// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkWindow adds products of windows of columns, as the experts of a mixture are
// in down, in turn with a run of rows of as many bytes: the median of the ratios of
// neighbours says what apart costs.
func BenchmarkWindow(b *testing.B) {
	const rows, cols, width, windows = 2048, 128 * 768, 768, 8
	for _, l := range []Layout{Q4x4, Q8x8} {
		for _, huge := range []int{unix.MADV_HUGEPAGE, unix.MADV_NOHUGEPAGE} {
			b.Run(fmt.Sprintf("%v/huge=%v", l, huge == unix.MADV_HUGEPAGE), func(b *testing.B) {
				n := rows * cols / BlockLen * l.BlockBytes()
				data, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
				if err != nil {
					b.Fatal(err)
				}
				defer unix.Munmap(data)
				if err := unix.Madvise(data, huge); err != nil {
					b.Fatal(err)
				}
				piece := randBlocks(newRand(1), 64*4096, l.Q8(), "quantised")
				for at := 0; at < n; at += len(piece) {
					copy(data[at:], piece)
				}
				m, err := NewMatrix(data, rows, cols, l)
				if err != nil {
					b.Fatal(err)
				}
				acts, x, tmp := NewActs(1, width), make([]float32, rows), make([]float32, rows)
				acts.Quantize(randFloats(newRand(2), width, "normal"), 1)
				long, dense := NewActs(1, cols), make([]float32, rows)
				long.Quantize(randFloats(newRand(2), cols, "normal"), 1)
				r := newRand(3)
				products := make([]Product, windows)
				var ratios, rates []float64
				bytes := float64(n / (cols / width) * windows)
				for b.Loop() {
					clear(x)
					for i := range products {
						e := i*cols/width/windows + r.IntN(cols/width/windows)
						products[i] = Product{Matrix: m.Part(0, rows, e*width, (e+1)*width), Acts: *acts, Weight: 1}
					}
					start := time.Now()
					AddProducts(x, tmp, products, 0, rows)
					apart := time.Since(start)
					share := rows / (cols / width) * windows
					row0 := r.IntN(rows/share) * share
					start = time.Now()
					MatMul(dense, rows, &m, long, row0, row0+share)
					together := time.Since(start)
					rates = append(rates, bytes/apart.Seconds()/1e9)
					ratios = append(ratios, together.Seconds()/apart.Seconds())
				}
				slices.Sort(rates)
				slices.Sort(ratios)
				b.ReportMetric(rates[len(rates)/2], "GB/s")
				b.ReportMetric(100*ratios[len(ratios)/2], "%of-dense")
			})
		}
	}
}
