// SPDX-License-Identifier: Apache-2.0

//go:build (!amd64 && !arm64) || purego

package kernels

func maxBlocks(dst, x []float32) { maxBlocksGeneric(dst, x) }
