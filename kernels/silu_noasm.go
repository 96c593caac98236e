// SPDX-License-Identifier: Apache-2.0

//go:build (!amd64 && !arm64) || purego

package kernels

func siluMul(dst, gate, up []float32) { siluMulGeneric(dst, gate, up) }
