// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkAttentionStream has the heads of one kv head and token go over 512 MiB
// of its cache, block by block, in alternation with SumWords as BenchmarkStream
// does: that is attention while decoding behind a long context. Of a block, values
// follow keys in memory, and blocks each other.
func BenchmarkAttentionStream(b *testing.B) {
	const size, piece = 512 << 20, 16 << 20
	data, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Munmap(data)
	if err := unix.Madvise(data, unix.MADV_HUGEPAGE); err != nil {
		b.Fatal(err)
	}
	for i := 0; i < size; i += 2 {
		binary.LittleEndian.PutUint16(data[i:], 0x2c00|uint16(i>>1*37)&0x3ff) // 1/16 to 1/8, two codes as well
	}
	for _, hd := range []int{64, 128} {
		for _, kv := range []KV{KVF16, KVInt8} {
			for _, rows := range []int{1, 2, 3, 4, 8} {
				b.Run(fmt.Sprintf("head=%d/%v/rows=%d", hd, kv, rows), func(b *testing.B) {
					half := AttnBlock / KVGroup * kv.GroupBytes(hd)
					blocks := piece / (2 * half)
					tile, acc, part := NewAttnTile(rows, hd), NewAttnPart(rows, hd), NewAttnPart(rows, hd)
					x := randFloats(newRand(1), hd, "normal")
					for r := range rows {
						tile.SetQuery(r, x, 0.1)
					}
					eachAttention(b, func(b *testing.B) {
						var read, att []float64
						for range b.N {
							for at := 0; at < size; at += piece {
								t0 := time.Now()
								SumWords(data[at:][:piece], fetchAhead)
								t1 := time.Now()
								far := data[(at+size/2)%size:]
								for i := range blocks {
									block := far[i*2*half:]
									tile.Block(part, kv, block[:half], block[half:][:half], AttnBlock, rows)
									if i == 0 {
										copy(acc.M, part.M)
										continue
									}
									acc.Merge(part)
								}
								t2 := time.Now()
								read = append(read, piece/t1.Sub(t0).Seconds()/1e9)
								att = append(att, float64(blocks*2*half)/t2.Sub(t1).Seconds()/1e9)
							}
						}
						gbs := reportStream(b, read, att)
						b.ReportMetric(gbs*1e3/float64(2*half/AttnBlock), "positions/us")
					})
				})
			}
		}
	}
}

// eachAttention selects AVX-512, then AVX2.
func eachAttention(b *testing.B, f func(b *testing.B)) {
	for _, wide := range []bool{true, false} {
		if saved := useAVX512; useAVX2 && saved || !wide {
			useAVX512 = saved && wide
			name := "avx2"
			if useAVX512 {
				name = "avx512"
			}
			b.Run(name, f)
			useAVX512 = saved
		}
	}
}
