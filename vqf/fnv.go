// SPDX-License-Identifier: Apache-2.0

package vqf

// FNV-1a, 64 bits: docs/FORMAT.md section 3.4. The next state needs the last, so
// the speed is one xor and one multiplication a byte whatever the machine's
// width; callers overlap it with reading instead.
const (
	fnvOffset = 0xcbf29ce484222325
	fnvPrime  = 0x100000001b3
)

// fnvUpdate runs the chain over p from state h.
func fnvUpdate(h uint64, p []byte) uint64 {
	for len(p) >= 8 {
		q := p[:8]
		h = (h ^ uint64(q[0])) * fnvPrime
		h = (h ^ uint64(q[1])) * fnvPrime
		h = (h ^ uint64(q[2])) * fnvPrime
		h = (h ^ uint64(q[3])) * fnvPrime
		h = (h ^ uint64(q[4])) * fnvPrime
		h = (h ^ uint64(q[5])) * fnvPrime
		h = (h ^ uint64(q[6])) * fnvPrime
		h = (h ^ uint64(q[7])) * fnvPrime
		p = p[8:]
	}
	for _, c := range p {
		h = (h ^ uint64(c)) * fnvPrime
	}
	return h
}
