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
	if !useVNNI {
		t.Skip("needs vnni")
	}
	const groups = 6
	for _, v := range []struct {
		name string
		run  func(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32)
	}{
		{"plain", func(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32) {
			gemvQ4x4VNNI(dst, w, groups, nb, q, d, bias, 0)
		}},
		{"long", gemvQ4x4LongVNNI},
		{"pairs", func(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32) {
			gemvQ4x4PairsVNNI(dst, w, groups/2, nb, q, d, bias)
		}},
	} {
		for _, nb := range []int{1, 2, 3, 31, pairBlocks, pairBlocks + 1, longBlocks - 1, longBlocks, 150} {
			for _, kind := range weightKinds {
				c := newMatMulCase(t, Q4x4, kind, nb, groups, 1, uint64(nb))
				want := make([]float32, c.m.Rows)
				matMulGeneric(want, c.m.Rows, &c.m, c.a, 0, c.m.Rows)
				got := guarded[float32](t, c.m.Rows, c.low)
				v.run(&got[0], &c.m.Data[0], groups, nb, &c.a.Q[0], &c.a.D[0], &c.a.bias[0])
				sameBits(t, fmt.Sprintf("%s, %d blocks, %s", v.name, nb, kind), got, want)
			}
		}
	}
}

// TestFetchAhead: prefetching changes nothing but time.
func TestFetchAhead(t *testing.T) {
	defer func(saved int) { fetchAhead = saved }(fetchAhead)
	for _, fetchAhead = range []int{0, 4352} {
		eachImplementation(t, func(t *testing.T) {
			for _, l := range layouts {
				testMatMul(t, newMatMulCase(t, l, "random", 80, 5, 1, uint64(l)))
			}
		})
	}
	if v := vendor(); len(v) != 12 {
		t.Errorf("vendor %q", v)
	}
}

// TestGemmPanels: more blocks than one panel, rows and tokens that fill no tile.
func TestGemmPanels(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, l := range layouts {
			for _, nb := range []int{panelBlocks, panelBlocks + 1, 2*panelBlocks + 3} {
				for _, tokens := range []int{fewTokens, fewTokens + 1, tileTokens, tileTokens + 1, tileTokens + 4} {
					testMatMul(t, newMatMulCase(t, l, "random", nb, panelRows/l.Rows()+1, tokens, uint64(tokens)))
				}
			}
		}
	})
}
