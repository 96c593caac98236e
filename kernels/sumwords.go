// SPDX-License-Identifier: Apache-2.0

package kernels

// SumWords is the sum, modulo 2^64, of the little-endian 64-bit words of p; up
// to 7 bytes at the end make no word and are left out. It is how fast this
// machine reads memory, for a benchmark to compare with: ahead is how many bytes
// before their turn lines are prefetched, 0 for none, which some CPUs gain by.
func SumWords(p []byte, ahead int) uint64 { return sumWords(p, ahead) }
