// SPDX-License-Identifier: Apache-2.0

package kernels

import "testing"

func TestSumWords(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(1)
		for _, n := range []int{0, 7, 8, 255, 256, 511, 512, 519, 520, 1024, 4096, 5000} {
			for _, ahead := range []int{0, 2048} {
				for _, low := range []bool{false, true} {
					p := guarded[byte](t, n, low)
					for i := range p {
						p[i] = byte(r.Uint32())
					}
					if got, want := SumWords(p, ahead), sumWordsGeneric(p); got != want {
						t.Errorf("%d bytes, prefetch %d: %#x, want %#x", n, ahead, got, want)
					}
				}
			}
		}
	})
}
