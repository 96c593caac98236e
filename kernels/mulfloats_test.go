// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"fmt"
	"testing"
)

func TestMulFloats(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, kind := range floatKinds {
			for _, rows := range []int{1, 2, 5, 6, 7, 13} {
				for _, k := range []int{1, 2, 31, 64} {
					r := newRand(uint64(rows*100 + k))
					lda := k + rows%3
					a := guardedCopy(t, randFloats(r, (rows-1)*lda+k, kind), rows%2 == 0)
					b := guardedCopy(t, randFloats(r, k*FloatColumns, kind), k%2 == 0)
					c := guardedCopy(t, randFloats(r, rows*FloatColumns, kind), k%2 == 0)
					for _, add := range []bool{true, false} {
						want := make([]float32, len(c))
						for i := range want {
							if add {
								want[i] = c[i]
							}
							for j := range k {
								want[i] = fma32(a[i/FloatColumns*lda+j], b[j*FloatColumns+i%FloatColumns], want[i])
							}
						}
						MulFloats(c, a, lda, b, rows, k, add)
						sameBits(t, fmt.Sprintf("%s, %d rows, k %d, add %v", kind, rows, k, add), c, want)
					}
				}
			}
		}
	})
}

func TestMulFloatsNone(t *testing.T) {
	MulFloats(nil, nil, 3, make([]float32, 3*FloatColumns), 0, 3, false)
	c, a, b := make([]float32, FloatColumns), make([]float32, 4), make([]float32, 4*FloatColumns)
	if n := testing.AllocsPerRun(10, func() { MulFloats(c, a, 4, b, 1, 4, true) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
