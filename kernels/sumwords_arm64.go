// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

const sumStep = 256 // bytes an iteration

func sumWords(p []byte, ahead int) uint64 {
	n := len(p) / sumStep
	if !useNEON || n == 0 {
		return sumWordsGeneric(p)
	}
	return sumWordsGeneric(p[n*sumStep:]) + sumWordsNEON(&p[0], n, ahead)
}

//go:noescape
func sumWordsNEON(p *byte, steps, ahead int) uint64
