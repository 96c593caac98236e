// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

import (
	"fmt"
	"slices"
	"testing"
	"time"
	"unsafe"

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

// BenchmarkStream multiplies one token by 1 GiB of weights and compares with a
// loop that only reads them, alternating: of-read is the median ratio of the
// two speeds.
func BenchmarkStream(b *testing.B) {
	const size, cols = 1 << 30, 4096
	data, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Munmap(data)
	if err := unix.Madvise(data, unix.MADV_HUGEPAGE); err != nil {
		b.Fatal(err)
	}
	for i := 0; i < size; i += 8 {
		data[i] = byte(i>>3*37) | 1
	}
	floats := unsafe.Slice((*float32)(unsafe.Pointer(&data[0])), size/4)
	x := randFloats(newRand(1), cols, "normal")
	for _, l := range layouts {
		b.Run(l.String(), func(b *testing.B) {
			each(b, func(b *testing.B) {
				rows := size / (cols / BlockLen * l.BlockBytes()) / 8 * 8
				m, err := NewMatrix(data[:rows*cols/BlockLen*l.BlockBytes()], rows, cols, l)
				if err != nil {
					b.Fatal(err)
				}
				a := NewActs(1, cols)
				a.Quantize(x, 1)
				dst := make([]float32, rows)
				var ratio, speed []float64
				for range max(b.N, 7) {
					t0 := time.Now()
					Dot(floats, floats)
					t1 := time.Now()
					MatMul(dst, rows, &m, a, 0, rows)
					t2 := time.Now()
					read := float64(size) / t1.Sub(t0).Seconds()
					mul := float64(len(m.Data)) / t2.Sub(t1).Seconds()
					ratio, speed = append(ratio, mul/read), append(speed, mul/1e9)
				}
				slices.Sort(ratio)
				slices.Sort(speed)
				b.ReportMetric(ratio[len(ratio)/2], "of-read")
				b.ReportMetric(speed[len(speed)/2], "GB/s")
			})
		})
	}
}

// BenchmarkTokens multiplies several tokens.
func BenchmarkTokens(b *testing.B) {
	for _, l := range layouts {
		for _, tokens := range []int{2, 8, 128, 512} {
			b.Run(fmt.Sprintf("%v/%d", l, tokens), func(b *testing.B) {
				const n = 2048
				m := arrange(b, randBlocks(newRand(2), n*n/BlockLen, l.Q8(), "random"), n, n, l)
				each(b, func(b *testing.B) { benchMatMul(b, &m, tokens) })
			})
		}
	}
}
