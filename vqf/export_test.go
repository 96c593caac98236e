// SPDX-License-Identifier: Apache-2.0

package vqf

import "io"

// What tests outside the package need to see of its inside.

// FNV runs the checksum over p from its start state.
func FNV(p []byte) uint64 { return fnvUpdate(fnvOffset, p) }

// Rechain computes offsets anew after a test changed the entries.
func (p *Plan) Rechain() error { return p.chain() }

// Parse is what Open does before it maps the file.
func Parse(r io.ReaderAt, size int64) (Header, []Tensor, error) {
	p, err := parse(r, size)
	return p.header, p.tensors, err
}

// Prefix re-encodes a header and directory.
func Prefix(h Header, ts []Tensor) []byte { return (&Plan{Header: h, Tensors: ts}).Prefix() }

// ArchNames are the architecture's words in file order.
func ArchNames() []string { return archNames[:] }

// FixedIV and FixedSigner make CreateOptions give known bytes.
func (opt *CreateOptions) FixedIV(iv [16]byte) { opt.iv = &iv }

// FixedSigner signs in the place of the key, whose public half is still written.
func (opt *CreateOptions) FixedSigner(f func(id string, digest [32]byte) (r, s [32]byte, err error)) {
	opt.signer = f
}
