// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func siluMul(dst, gate, up []float32) { siluMulGeneric(dst, gate, up) }
