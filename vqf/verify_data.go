// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"

	"windhover/vqf/seal"
)

// Names of lines that others look for.
const (
	lineTag       = "tag"
	lineSignature = "signature"
)

// verification is the part of Verify that reads the data.
type verification struct {
	report *VerifyReport
	p      *parsed
	opt    VerifyOptions

	gap    *zeroRange
	sum    *fnvRange  // of a plain file
	tag    *hashRange // of an encrypted file, with a key
	digest *hashRange // of a signed file that can be read
}

// read passes over the whole file once, with every hash that it needs beside each
// other.
func (v *verification) read(ctx context.Context, progress func(done, total int64)) error {
	h := &v.p.header
	whole := sha256.New()
	v.gap = &zeroRange{from: int64(headerSize(h.Fields)), to: int64(h.DataOffset), bad: -1,
		skipFrom: DirOffset, skipTo: DirOffset + EntrySize*int64(h.NTensors)}
	read := &pass{r: v.p.r, to: v.p.size, progress: progress}
	readable := true // the plain data can be had
	if v.p.encrypted() {
		if readable = v.opt.Key != nil; readable {
			v.tag = newHashRange(h, v.opt.Key.NewTag())
			read.raw = append(read.raw, v.tag.sink)
		}
	} else {
		v.sum = newFNVRange(h)
		read.raw = append(read.raw, v.sum.sink)
	}
	if v.report.Signature.Present && readable {
		v.digest = newHashRange(h, seal.NewSM3())
		if v.p.encrypted() {
			area, err := newCipherArea(h, v.opt.Key)
			if err != nil {
				return err
			}
			read.stage, read.plain = area.stage, []sink{v.digest.sink}
		} else {
			read.raw = append(read.raw, v.digest.sink)
		}
	}
	read.raw = append(read.raw, hashAll(whole), v.gap.sink)
	if err := read.run(ctx); err != nil {
		return err
	}
	v.report.SHA256 = hex.EncodeToString(whole.Sum(nil))
	if v.sum != nil {
		v.report.Computed = v.sum.h
	}
	return nil
}

func hashAll(h hash.Hash) sink { return func(_ int64, p []byte) { h.Write(p) } }

// judge adds the lines that needed the data.
func (v *verification) judge() error {
	r := v.report
	r.result("gap", v.gap.err(), "zero from the directory to data_offset, hashed by nothing")
	readable, err := v.trailer()
	if err != nil {
		return err
	}
	if readable {
		if err := r.plaintext(v.p); err != nil {
			return err
		}
	}
	v.signature(readable)
	return nil
}

// trailer adds the line about tag or checksum, and says whether the data can be
// looked at. Of a file that was changed, or under another passphrase, it cannot.
func (v *verification) trailer() (readable bool, err error) {
	r, p := v.report, v.p
	if !p.encrypted() {
		if r.Stored, err = p.storedSum(); err != nil {
			return false, err
		}
		if r.Stored == 0 {
			r.add("checksum", StatusNote, "no checksum: stored 0, computed 0x%016x", r.Computed)
		} else {
			r.result("checksum", p.compareSum(r.Stored, r.Computed), "stored 0x%016x, computed 0x%016x", r.Stored, r.Computed)
		}
		return true, nil
	}
	stored, err := p.storedTag()
	if err != nil {
		return false, err
	}
	r.Tag = [32]byte(stored)
	if v.tag == nil {
		r.result(lineTag, needKey(), "")
		return false, nil
	}
	bad := p.compareTag(stored, v.tag.h.Sum(nil))
	r.TagOK = bad == nil
	r.result(lineTag, bad, "HMAC-SM3 of header, directory and enciphered data")
	if bad != nil {
		return false, nil
	}
	_, err = p.unlock(v.opt.Key)
	return true, err
}

// plaintext adds the lines that look at tensors' bytes.
func (r *VerifyReport) plaintext(p *parsed) error {
	bad, err := p.dirtyPadding()
	if err != nil {
		return err
	}
	r.result("padding", bad, "zero after every tensor")
	for _, name := range []string{NameTokenizer, NameMeta} {
		b, err := p.extra(name)
		switch {
		case err != nil:
			return err
		case b == nil:
		case !json.Valid(b):
			r.result(name, badField(name, int64(p.find(name).Offset), "is no JSON"), "")
		default:
			r.result(name, nil, "%d bytes of JSON", len(b))
		}
	}
	for _, f := range []struct {
		tensor, line string
		layout       func() (Layout, error)
	}{{"q8_q", "q8 layout", p.findQ8Layout}, {"q4_q", "q4 layout", p.findQ4Layout}} {
		if p.find(f.tensor) == nil {
			continue
		}
		l, err := f.layout()
		bad, err := split(err)
		if err != nil {
			return err
		}
		if bad != nil {
			r.result(f.line, bad, "")
		} else {
			r.add(f.line, StatusOK, "%s", l)
		}
	}
	return nil
}

// signature adds the line about it.
func (v *verification) signature(readable bool) {
	r, s := v.report, &v.p.header.Sig
	if !r.Signature.Present {
		r.add(lineSignature, StatusNote, "none")
		return
	}
	if !readable {
		id, pub := s.block()
		r.Signature.ID, r.Signature.Fingerprint = id, pub.Fingerprint()
		r.add(lineSignature, StatusNote, "present, not checked: the data cannot be read")
		return
	}
	var err error
	r.Signature, err = s.check([32]byte(v.digest.h.Sum(nil)), v.opt.Trust)
	switch g := &r.Signature; {
	case err != nil:
		r.result(lineSignature, err, "")
	case g.Trusted:
		r.add(lineSignature, StatusOK, "SM2 by the trusted key %q, %s, id %s", g.Signer, g.Fingerprint, g.ID)
	default:
		r.add(lineSignature, StatusNote, "SM2 by %s, id %s: holds, but no trusted key says whose it is", g.Fingerprint, g.ID)
	}
}

// zeroRange finds the first byte that is not zero in [from, to), except in
// [skipFrom, skipTo).
type zeroRange struct{ from, to, skipFrom, skipTo, bad int64 }

func (z *zeroRange) sink(at int64, p []byte) {
	if z.bad >= 0 || at >= z.to {
		return
	}
	for _, s := range [...][2]int64{{z.from, z.skipFrom}, {z.skipTo, z.to}} {
		lo, hi := max(s[0], at), min(s[1], at+int64(len(p)))
		if lo >= hi {
			continue
		}
		if i := nonZero(p[lo-at : hi-at]); i >= 0 {
			z.bad = lo + int64(i)
			return
		}
	}
}

func (z *zeroRange) err() error {
	if z.bad < 0 {
		return nil
	}
	return badField("gap", z.bad, "is not zero: nothing covers these bytes, and nobody should write there")
}
