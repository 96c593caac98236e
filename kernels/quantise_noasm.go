// SPDX-License-Identifier: Apache-2.0

//go:build (!amd64 && !arm64) || purego

package kernels

func quantizeQ8(dst []byte, src []float32) { quantizeQ8Generic(dst, src) }

func quantizeQ4(dst []byte, src []float32) { quantizeQ4Generic(dst, src) }
