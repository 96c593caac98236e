// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func softmax(x []float32) { softmaxGeneric(x) }
