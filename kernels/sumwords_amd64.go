// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

const sumStep = 512 // bytes an iteration

func sumWords(p []byte, ahead int) uint64 {
	n := len(p) / sumStep
	if !useAVX2 || n == 0 {
		return sumWordsGeneric(p)
	}
	rest := sumWordsGeneric(p[n*sumStep:])
	if useAVX512 {
		return rest + sumWordsAVX512(&p[0], n, ahead)
	}
	return rest + sumWordsAVX2(&p[0], n, ahead)
}

//go:noescape
func sumWordsAVX512(p *byte, steps, ahead int) uint64

//go:noescape
func sumWordsAVX2(p *byte, steps, ahead int) uint64
