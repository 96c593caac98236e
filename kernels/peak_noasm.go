// SPDX-License-Identifier: Apache-2.0

//go:build (!amd64 && !arm64) || purego

package kernels

func peakInt8(steps int) int64 { return peakInt8Generic(steps) }

func peakF32(steps int) int64 { return peakF32Generic(steps) }
