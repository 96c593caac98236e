// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func peakInt8(steps int) int64 {
	switch {
	case useVNNI:
		return 16 * int64(peakInt8VNNI(steps))
	case useAVX2:
		return 8 * int64(peakInt8AVX2(steps))
	}
	return peakInt8Generic(steps)
}

func peakF32(steps int) int64 {
	switch {
	case useAVX512:
		return 16 * int64(peakF32AVX512(steps))
	case useAVX2:
		return 8 * int64(peakF32AVX2(steps))
	}
	return peakF32Generic(steps)
}

//go:noescape
func peakInt8VNNI(steps int) int32

//go:noescape
func peakInt8AVX2(steps int) int32

//go:noescape
func peakF32AVX512(steps int) float32

//go:noescape
func peakF32AVX2(steps int) float32
