// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func rmsNorm(dst, x, w []float32, eps float32) { rmsNormGeneric(dst, x, w, eps) }
