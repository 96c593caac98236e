// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"context"
	"fmt"
	"hash"
	"io"

	"windhover/vqf/seal"
)

// canonical returns the header as tag and digest cover it: file_len and the
// signature block are zero, since both are filled in last, docs/FORMAT.md section
// 9. It has 432 or 448 bytes, as the file's header has.
func (h *Header) canonical() []byte {
	c := *h
	c.FileLen, c.Sig = 0, Signature{}
	return c.encode()
}

// hashRange feeds a hash with what tag and digest cover: the canonical header at
// once, then the directory and the data area out of a pass over the file.
type hashRange struct {
	h                 hash.Hash
	dirEnd, data, end int64
}

func newHashRange(h *Header, of hash.Hash) *hashRange {
	of.Write(h.canonical()) // a hash never fails to write
	return &hashRange{h: of, dirEnd: DirOffset + EntrySize*int64(h.NTensors), data: int64(h.DataOffset), end: int64(h.FileLen)}
}

func (r *hashRange) sink(at int64, p []byte) {
	for _, s := range [...][2]int64{{DirOffset, r.dirEnd}, {r.data, r.end}} {
		if lo, hi := overlap(s, at, p); lo < hi {
			r.h.Write(p[lo-at : hi-at])
		}
	}
}

// overlap is the part of the range s that p, which starts at at, holds.
func overlap(s [2]int64, at int64, p []byte) (lo, hi int64) {
	return max(s[0], at), min(s[1], at+int64(len(p)))
}

// cipherArea is the enciphered part of a file and its key stream.
type cipherArea struct {
	stream    *seal.Stream
	data, end int64
}

func newCipherArea(h *Header, key *seal.Key) (*cipherArea, error) {
	s, err := key.Stream(h.EncIV)
	if err != nil {
		return nil, fmt.Errorf("vqf: key stream: %w", err)
	}
	return &cipherArea{stream: s, data: int64(h.DataOffset), end: int64(h.FileLen)}, nil
}

// open deciphers what of p, which starts at offset at of the file, lies in the
// data area, in place.
func (a *cipherArea) open(at int64, p []byte) {
	if lo, hi := overlap([2]int64{a.data, a.end}, at, p); lo < hi {
		q := p[lo-at : hi-at]
		a.stream.XORKeyStreamAt(q, q, lo-a.data)
	}
}

// stage makes piece.plain, for a fan.
func (a *cipherArea) stage(c *piece) {
	lo, hi := overlap([2]int64{a.data, a.end}, c.at, c.p)
	if lo >= hi {
		c.plain = c.p
		return
	}
	if c.open == nil {
		c.open = make([]byte, len(c.buf))
	}
	c.plain = c.open[:len(c.p)]
	copy(c.plain, c.p[:lo-c.at])
	a.stream.XORKeyStreamAt(c.plain[lo-c.at:hi-c.at], c.p[lo-c.at:hi-c.at], lo-a.data)
	copy(c.plain[hi-c.at:], c.p[hi-c.at:])
}

// stageInto is a stage that deciphers the data area into dst, which has its
// length. Nothing is in memory twice but the pieces under way.
func (a *cipherArea) stageInto(dst []byte) func(*piece) {
	return func(c *piece) {
		if lo, hi := overlap([2]int64{a.data, a.end}, c.at, c.p); lo < hi {
			a.stream.XORKeyStreamAt(dst[lo-a.data:hi-a.data], c.p[lo-c.at:hi-c.at], lo-a.data)
		}
	}
}

// cipherReader reads an encrypted file as if it were plain.
type cipherReader struct {
	r    io.ReaderAt
	area *cipherArea
}

// ReadAt reads and deciphers piece by piece, while a piece is still in cache.
func (r cipherReader) ReadAt(p []byte, at int64) (int, error) {
	done := 0
	for done < len(p) {
		q := p[done:min(len(p), done+pieceSize)]
		n, err := r.r.ReadAt(q, at+int64(done))
		r.area.open(at+int64(done), q[:n])
		if done += n; n < len(q) {
			return done, err
		}
	}
	return done, nil
}

// needKey is the answer to an encrypted file without a passphrase.
func needKey() error {
	return badField("flags", 8, "encrypted: a passphrase is needed (vqf.key_file, the systemd credential vqf-key, or VLLM_VQF_KEY)").as(ErrKey)
}

// unlock lets p.plain decipher an encrypted file; it compares nothing.
func (p *parsed) unlock(key *seal.Key) (*cipherArea, error) {
	if key == nil {
		return nil, needKey()
	}
	area, err := newCipherArea(&p.header, key)
	if err != nil {
		return nil, err
	}
	p.plain = cipherReader{p.r, area}
	return area, nil
}

// checkTag reads an encrypted file whole and compares its tag. stage (may be nil)
// sees the pieces on their way: what it makes of them is not to be used unless
// the error is nil.
func (p *parsed) checkTag(ctx context.Context, key *seal.Key, stage func(*piece), passed func(int64), progress func(done, total int64)) error {
	tag := newHashRange(&p.header, key.NewTag())
	read := &pass{r: p.r, from: DirOffset, to: int64(p.header.FileLen), raw: []sink{tag.sink}, stage: stage, passed: passed, progress: progress}
	if err := read.run(ctx); err != nil {
		return err
	}
	stored, err := p.storedTag()
	if err != nil {
		return err
	}
	return p.compareTag(stored, tag.h.Sum(nil))
}

// compareTag takes the same time wherever the tags differ, and does not tell the
// computed one: whoever could ask for it could give a changed file a good tag.
func (p *parsed) compareTag(stored, computed []byte) error {
	if seal.Equal(stored, computed) {
		return nil
	}
	return badField("tag", int64(p.header.FileLen),
		"HMAC-SM3 mismatch: the file was tampered with or damaged, or the passphrase is not the one it was encrypted with").as(ErrTag)
}

// storedTag reads the tag in the trailer.
func (p *parsed) storedTag() ([]byte, error) {
	b := make([]byte, tagTrailer)
	return b, readFull(p.r, b, int64(p.header.FileLen))
}
