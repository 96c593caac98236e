// SPDX-License-Identifier: Apache-2.0

//go:build (!amd64 && !arm64) || purego

package kernels

func ropeHalf(x, cos, sin []float32) { ropeHalfGeneric(x, cos, sin) }
