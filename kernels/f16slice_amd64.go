// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func f32ToF16Slice(dst []uint16, src []float32) { f32ToF16SliceGeneric(dst, src) }

func f16ToF32Slice(dst []float32, src []uint16) { f16ToF32SliceGeneric(dst, src) }
