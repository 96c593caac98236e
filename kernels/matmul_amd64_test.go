// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

import (
	"fmt"
	"testing"
)

// TestGemvQ4x4Variants: the kernels that long and short rows choose between give
// the same bits at any length, with the operands against unmapped pages.
func TestGemvQ4x4Variants(t *testing.T) {
	type gemv func(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)
	const groups = 12
	for _, v := range []struct {
		name  string
		needs bool
		run   gemv
	}{
		{"vnni", useVNNI, gemvQ4x4VNNI},
		{"vnni, pairs", useVNNI, func(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, _ int) {
			gemvQ4x4PairsVNNI(dst, w, groups/2, nb, q, d, bias)
		}},
		{"vnni, quads", useVNNI, gemvQ4x4QuadVNNI},
		{"avx2", useAVX2, gemvQ4x4AVX2},
		{"avx2, quads", useAVX2, gemvQ4x4QuadAVX2},
	} {
		t.Run(v.name, func(t *testing.T) {
			if !v.needs {
				t.Skip("not on this CPU")
			}
			for _, nb := range []int{1, 2, 3, 31, pairBlocks, pairBlocks + 1, 150} {
				for _, kind := range weightKinds {
					c := newMatMulCase(t, Q4x4, kind, nb, groups, 1, uint64(nb))
					want := make([]float32, c.m.Rows)
					matMulGeneric(want, c.m.Rows, &c.m, c.a, 0, c.m.Rows)
					for _, ahead := range []int{0, 4352} {
						got := guarded[float32](t, c.m.Rows, c.low)
						v.run(&got[0], &c.m.Data[0], groups, nb, &c.a.Q[0], &c.a.D[0], &c.a.bias[0], ahead)
						sameBits(t, fmt.Sprintf("%d blocks, %s, prefetch %d", nb, kind, ahead), got, want)
					}
				}
			}
		})
	}
}

// TestGemvQ4RowQuads: rows by four, with the operands against unmapped pages, and
// what is left of any number of rows and blocks.
func TestGemvQ4RowQuads(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, nb := range []int{2, 3, 4, 6, 8, 36, 148} {
			for rows := 1; rows <= 12; rows++ {
				for _, kind := range weightKinds {
					testMatMul(t, newMatMulCase(t, Q4Row, kind, nb, rows, 1, uint64(rows)))
				}
			}
		}
	})
}

// TestGemvQ8x4Quads: groups of long rows by four, and what is left of any number.
func TestGemvQ8x4Quads(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, nb := range []int{longBlocks - 1, longBlocks, longBlocks + 3} {
			for groups := 1; groups <= 9; groups++ {
				for _, kind := range weightKinds {
					testMatMul(t, newMatMulCase(t, Q8x4, kind, nb, groups, 1, uint64(groups)))
				}
			}
		}
	})
}

// TestGemvQ4x4Choice: any number of groups, few and many bytes, are done wholly.
func TestGemvQ4x4Choice(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, nb := range []int{pairBlocks, pairBlocks + 1} {
			many := quadBytes/(nb*Q4x4.GroupBytes()) + 1
			for _, groups := range []int{1, 2, 3, 4, 5, many, many + 1, many + 2, many + 3} {
				testMatMul(t, newMatMulCase(t, Q4x4, "random", nb, groups, 1, uint64(groups)))
			}
		}
	})
}

// TestFetchAhead: prefetching changes nothing but time.
func TestFetchAhead(t *testing.T) {
	defer func(saved int) { fetchAhead = saved }(fetchAhead)
	for _, fetchAhead = range []int{0, 4352} {
		eachImplementation(t, func(t *testing.T) {
			for _, l := range layouts {
				testMatMul(t, newMatMulCase(t, l, "random", 80, 5, 1, uint64(l)))
				testMatMul(t, newMatMulCase(t, l, "random", longBlocks, 5, 1, uint64(l)))
				testMatMul(t, newMatMulCase(t, l, "random", 80, 5, 4, uint64(l)))
			}
		})
	}
	if v := vendor(); len(v) != 12 {
		t.Errorf("vendor %q", v)
	}
}

// TestFew: every number of tokens in a tile and some tiles, over several pieces of
// rows and rows that are left.
func TestFew(t *testing.T) {
	const nb = 90
	eachImplementation(t, func(t *testing.T) {
		for _, l := range []Layout{Q8x8, Q4x4} {
			groups := 2*fewBytes/(nb*l.GroupBytes()) + 7
			for _, tokens := range []int{2, 3, 4, 5, 6, 7, 8, 9, 18} {
				testMatMul(t, newMatMulCase(t, l, "random", nb, groups, tokens, uint64(tokens)))
			}
			if n := fewLimit(l); n > 1 {
				testMatMul(t, newMatMulCase(t, l, "random", 2, 7, n, 1))
				testMatMul(t, newMatMulCase(t, l, "random", 2, 7, n+1, 1))
			}
		}
	})
}

// TestGemmPanels: more blocks than one panel, rows and tokens that fill no tile.
func TestGemmPanels(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, l := range layouts {
			for _, nb := range []int{panelBlocks, panelBlocks + 1, 2*panelBlocks + 3} {
				for _, tokens := range []int{singleTokens, singleTokens + 1, tileTokens, tileTokens + 1, tileTokens + 4, 16*tileTokens + 5} {
					testMatMul(t, newMatMulCase(t, l, "random", nb, panelRows/l.Rows()+1, tokens, uint64(tokens)))
				}
			}
		}
	})
}
