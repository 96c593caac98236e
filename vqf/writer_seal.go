// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"context"
	"encoding/binary"
	"fmt"

	"windhover/vqf/seal"
)

// CreateOptions are the keys of a file that is written encrypted or signed; the
// plan says which, by Spec.Encrypt and Spec.Signed.
type CreateOptions struct {
	Key    *seal.Key        // encrypts; under a first counter block drawn for each file
	Sign   *seal.PrivateKey // signs
	SignID string           // signer id; empty: seal.IDKestrel

	// For tests of known bytes: never set otherwise, since two files under one
	// key and counter give each other away.
	iv     *[16]byte
	signer signer
}

// signer signs a digest, as seal.PrivateKey.Sign does.
type signer func(id string, digest [32]byte) (r, s [32]byte, err error)

// sealer is what a Writer needs beyond the checksum for a file that is encrypted
// or signed. Hashing runs behind the writing, in goroutines of the fan.
type sealer struct {
	area   *cipherArea // nil: only signed
	tag    *hashRange  // nil: only signed
	digest *hashRange  // nil: only encrypted
	fan    *fan
	pub    seal.PublicKey
	id     string
	sign   signer
}

// setUp takes the plan's header over and gets ready for what it asks for. iv is
// the first counter block of an encrypted file.
func (w *Writer) setUp(opt CreateOptions, iv [16]byte) error {
	w.header = w.plan.Header
	h := &w.header
	h.EncIV, h.Sig = [16]byte{}, Signature{}
	enc, signed := h.Flags&FlagEnc != 0, h.Flags&FlagSigned != 0
	sealing := &sealer{id: opt.SignID, sign: opt.signer}
	if opt.Sign != nil && sealing.sign == nil {
		sealing.sign = opt.Sign.Sign
	}
	if sealing.id == "" {
		sealing.id = seal.IDKestrel
	}
	switch {
	case enc != (opt.Key != nil):
		return fmt.Errorf("vqf: create %s: the plan says encrypted: %t, but there is a key: %t", w.path, enc, opt.Key != nil)
	case signed != (opt.Sign != nil):
		return fmt.Errorf("vqf: create %s: the plan says signed: %t, but there is a signing key: %t", w.path, signed, opt.Sign != nil)
	case signed && !seal.KnownID(sealing.id):
		return fmt.Errorf("vqf: create %s: no reader accepts the signer id %q: use %q or %q", w.path, sealing.id, seal.IDKestrel, seal.IDShs)
	case !enc && !signed:
		return nil
	case h.Fields == 41:
		return fmt.Errorf("vqf: create %s: encrypted and signed files are written with the 45-field header: %w", w.path, ErrUnsupported)
	}
	if enc {
		h.EncIV = iv
		var err error
		if sealing.area, err = newCipherArea(h, opt.Key); err != nil {
			return err
		}
		sealing.tag = newHashRange(h, opt.Key.NewTag())
	}
	if signed {
		sealing.pub = opt.Sign.Public()
		sealing.digest = newHashRange(h, seal.NewSM3())
	}
	w.seal = sealing
	return nil
}

// firstBlock is the first counter block of a new file.
func (opt *CreateOptions) firstBlock() ([16]byte, error) {
	if opt.Key == nil {
		return [16]byte{}, nil
	}
	if opt.iv != nil {
		return *opt.iv, nil
	}
	iv, err := seal.NewIV()
	if err != nil {
		return iv, fmt.Errorf("vqf: counter block: %w", err)
	}
	return iv, nil
}

// sinks are the hashes of the file as bytes of it come by: stored ones see what is
// on the storage, plain ones what is enciphered to it.
func (s *sealer) sinks(sum sink) (stored, plain []sink) {
	stored = []sink{sum}
	if s.tag != nil {
		stored = append(stored, s.tag.sink)
	}
	switch {
	case s.digest != nil && s.area == nil:
		stored = append(stored, s.digest.sink)
	case s.digest != nil:
		plain = append(plain, s.digest.sink)
	}
	return stored, plain
}

// begin starts the hashing of what data writes, from the directory on.
func (w *Writer) begin() {
	if w.seal == nil {
		return
	}
	for _, r := range []*hashRange{w.seal.tag, w.seal.digest} {
		if r != nil {
			r.sink(DirOffset, w.plan.directory())
		}
	}
	w.follow()
}

// follow starts the goroutines that hash what data writes.
func (w *Writer) follow() {
	sum := func(_ int64, p []byte) { w.sum = fnvUpdate(w.sum, p) }
	stored, plain := w.seal.sinks(sum)
	w.seal.fan = newFan(pieceSize, stored, nil, plain)
}

// dataSealed writes bytes of the data area, enciphered if the file is. The caller
// may use p again at once: the hashes work on copies.
func (w *Writer) dataSealed(p []byte) {
	s := w.seal
	for len(p) > 0 && w.err == nil {
		c := s.fan.get(context.Background())
		n := min(len(p), len(c.buf))
		at, plain := w.at, c.buf[:n]
		if s.area == nil {
			copy(c.buf, p[:n])
		} else {
			if c.open == nil {
				c.open = make([]byte, len(c.buf))
			}
			plain = c.open[:n]
			copy(plain, p[:n])
			s.area.stream.XORKeyStreamAt(c.buf[:n], plain, int64(at)-s.area.data)
		}
		w.err = w.put(c.buf[:n])
		s.fan.send(c, int64(at), n, plain)
		p = p[n:]
	}
}

// fromPartial takes the counter block out of the prefix of a partial file, and
// the signature that it may have got already.
func (w *Writer) fromPartial(prefix []byte) (iv [16]byte) {
	tail := tailOffset(w.plan.Header.Fields)
	if w.plan.Header.Flags&FlagEnc != 0 {
		copy(iv[:], prefix[tail+16:])
	}
	if w.plan.Header.Flags&FlagSigned != 0 {
		clear(prefix[tail+48:][:sigSize])
	}
	return iv
}

// takeUp continues the hashes from the bytes [0, at) of a partial file; sum sees
// them too.
func (w *Writer) takeUp(ctx context.Context, at int64, sum sink, progress func(done, total int64)) error {
	if w.seal == nil {
		return visit(ctx, w.f, 0, at, progress, sum)
	}
	read := &pass{r: w.f, to: at, progress: progress}
	read.raw, read.plain = w.seal.sinks(sum)
	if w.seal.area != nil {
		read.stage = w.seal.area.stage
	}
	if err := read.run(ctx); err != nil {
		return err
	}
	w.follow()
	return nil
}

// settle waits until the hashes have seen all that was written.
func (w *Writer) settle() {
	if w.seal != nil && w.seal.fan != nil {
		w.seal.fan.drain()
	}
}

// stop ends the hashing. It may be called more than once.
func (w *Writer) stop() {
	if w.seal != nil && w.seal.fan != nil {
		w.seal.fan.close()
		w.seal.fan = nil
	}
}

// finish fills in the signature and returns the trailer.
func (w *Writer) finish() (trailer []byte, err error) {
	w.stop()
	checksum := binary.LittleEndian.AppendUint64(nil, w.sum)
	s := w.seal
	if s == nil {
		return checksum, nil
	}
	if s.digest != nil {
		sig := &w.header.Sig
		sig.Pub, sig.Digest, sig.IDLen = s.pub, [32]byte(s.digest.h.Sum(nil)), uint32(len(s.id))
		copy(sig.ID[:], s.id)
		if sig.R, sig.S, err = s.sign(s.id, sig.Digest); err != nil {
			return nil, fmt.Errorf("vqf: sign %s: %w", w.path, err)
		}
		// Neither hash covers the block: writing it disturbs nothing.
		if _, err := w.f.WriteAt(w.header.encode(), 0); err != nil {
			return nil, fmt.Errorf("vqf: sign %s: %w", w.path, err)
		}
	}
	if s.tag != nil {
		return s.tag.h.Sum(nil), nil
	}
	return checksum, nil
}
