// SPDX-License-Identifier: Apache-2.0

package kernels

import "fmt"

// F32ToF16Slice applies [F32ToF16] to each element.
func F32ToF16Slice(dst []uint16, src []float32) {
	checkLen("F32ToF16Slice", len(dst), len(src))
	f32ToF16Slice(dst, src)
}

// F16ToF32Slice applies [F16ToF32] to each element.
func F16ToF32Slice(dst []float32, src []uint16) {
	checkLen("F16ToF32Slice", len(dst), len(src))
	f16ToF32Slice(dst, src)
}

func checkLen(op string, dst, src int) {
	if dst != src {
		panic(fmt.Sprintf("kernels: %s: %d values into %d", op, src, dst))
	}
}
