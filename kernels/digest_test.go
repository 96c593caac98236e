// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"testing"
)

// digest is what every machine and every implementation computes for the
// seeded cases below; amd64 and arm64 are both held to it.
const (
	digest        = 0x6438cdfd0aa7538d
	furtherDigest = 0x214631e1484aed7f // of furtherOps
)

func TestDigest(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		h := fnv.New64a()
		put := func(x []float32) {
			var b [4]byte
			for _, v := range x {
				u := math.Float32bits(v)
				if v != v {
					u = 0x7FC00000
				}
				binary.LittleEndian.PutUint32(b[:], u)
				h.Write(b[:])
			}
		}
		for _, l := range layouts {
			for _, kind := range weightKinds {
				for i, tokens := range []int{1, 4, 7} {
					c := newMatMulCase(t, l, kind, 6+i, 3, tokens, uint64(l)*10+uint64(i))
					dst := make([]float32, tokens*c.m.Rows)
					MatMul(dst, c.m.Rows, &c.m, c.a, 0, c.m.Rows)
					put(dst)
				}
			}
		}
		all := func(ops []floatOp) {
			for _, op := range ops {
				for i, n := range []int{1, 17, 64, 100, 333} {
					for _, kind := range floatKinds {
						put(op.run(operands{t, n, uint64(i), kind}, true))
					}
				}
			}
		}
		all(floatOps)
		if got := h.Sum64(); got != digest {
			t.Errorf("digest %#x, want %#x", got, uint64(digest))
		}
		h.Reset()
		all(furtherOps)
		if got := h.Sum64(); got != furtherDigest {
			t.Errorf("digest of further operations %#x, want %#x", got, uint64(furtherDigest))
		}
	})
}
