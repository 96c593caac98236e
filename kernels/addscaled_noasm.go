// SPDX-License-Identifier: Apache-2.0

//go:build (!amd64 && !arm64) || purego

package kernels

func addScaled(dst, x []float32, w float32) { addScaledGeneric(dst, x, w) }
