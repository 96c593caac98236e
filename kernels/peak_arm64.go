// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func peakInt8(steps int) int64 {
	switch {
	case useSDOT:
		return 4 * int64(peakInt8SDOT(steps))
	case useNEON:
		return 4 * int64(peakInt8NEON(steps))
	}
	return peakInt8Generic(steps)
}

func peakF32(steps int) int64 {
	if !useNEON {
		return peakF32Generic(steps)
	}
	return 4 * int64(peakF32NEON(steps))
}

//go:noescape
func peakInt8SDOT(steps int) int32

//go:noescape
func peakInt8NEON(steps int) int32

//go:noescape
func peakF32NEON(steps int) float32
