// SPDX-License-Identifier: Apache-2.0

//go:build (amd64 || arm64) && !purego

package kernels

// prefetch fetches n bytes from data[from] on, if they are there. A row group of a
// window lies apart from the one before, so that a CPU's own prefetchers begin anew
// with each, and come late.
func prefetch(data []byte, from, n int) {
	if from+n <= len(data) {
		prefetchLines(&data[from], (n+63)/64)
	}
}

//go:noescape
func prefetchLines(p *byte, lines int)
