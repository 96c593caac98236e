// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"

	"golang.org/x/crypto/blake2b"
)

// MinisignSuffix is what the name of a signature has behind the file's.
const MinisignSuffix = ".minisig"

// maxLegacy is the largest file whose signature may be of the old kind: minisign
// itself signs none above 1 GiB so, because checking one needs all of it at once.
const maxLegacy = 1 << 30

// MaxComment is the longest comment of a new signature, in bytes: minisign reads
// lines of less than 8 KiB, with what stands before the comment.
const MaxComment = 8000

const (
	prefixUntrusted = "untrusted comment: "
	prefixTrusted   = "trusted comment: "
)

// MinisignSignature is the content of a .minisig file.
type MinisignSignature struct {
	KeyID     [8]byte
	Prehashed bool   // of the file's BLAKE2b-512; else of the file itself
	Comment   string // trusted once Check has passed: the signer's words
	sig       [64]byte
	global    [64]byte // of sig and Comment
}

// KeyName is the id of the key that made it as minisign prints it.
func (s *MinisignSignature) KeyName() string { return minisignName(s.KeyID) }

// ReadMinisignSignature reads a .minisig file. The error is ErrSignature if the
// file is not well formed.
func ReadMinisignSignature(path string) (*MinisignSignature, error) {
	text, err := readSmall(path, 0)
	if err != nil {
		return nil, err
	}
	s, err := ParseMinisignSignature(text)
	if err != nil {
		return nil, failure{ErrSignature, fmt.Sprintf("%s: %v", path, err)}
	}
	return s, nil
}

// ParseMinisignSignature reads the four lines of a .minisig file.
func ParseMinisignSignature(text []byte) (*MinisignSignature, error) {
	bad := func(format string, a ...any) (*MinisignSignature, error) {
		return nil, failure{ErrSignature, "this is no minisign signature: " + fmt.Sprintf(format, a...)}
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) != 4 {
		return bad("one has 4 lines, not %d", len(lines))
	}
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\r")
	}
	if !strings.HasPrefix(lines[0], prefixUntrusted) {
		return bad("its first line is no untrusted comment")
	}
	comment, ok := strings.CutPrefix(lines[2], prefixTrusted)
	if !ok {
		return bad("its third line is no trusted comment")
	}
	if strings.Contains(comment, "\r") {
		return bad("its trusted comment holds a carriage return")
	}
	raw, err := decodeLine(lines[1], 2+8+64)
	if err != nil {
		return bad("%v", err)
	}
	global, err := decodeLine(lines[3], 64)
	if err != nil {
		return bad("%v", err)
	}
	s := &MinisignSignature{Comment: comment}
	switch [2]byte(raw) {
	case algPrehashed:
		s.Prehashed = true
	case algKey:
	default:
		return bad("its algorithm is %q, not \"ED\" or \"Ed\"", raw[:2])
	}
	copy(s.KeyID[:], raw[2:])
	copy(s.sig[:], raw[10:])
	copy(s.global[:], global)
	return s, nil
}

// File is the content of the .minisig file.
func (s *MinisignSignature) File() []byte {
	alg := algKey
	if s.Prehashed {
		alg = algPrehashed
	}
	raw := append(alg[:], s.KeyID[:]...)
	raw = append(raw, s.sig[:]...)
	enc := base64.StdEncoding
	return fmt.Appendf(nil, "%ssignature from windhover, key %s\n%s\n%s%s\n%s\n", prefixUntrusted, s.KeyName(), enc.EncodeToString(raw), prefixTrusted, s.Comment, enc.EncodeToString(s.global[:]))
}

// NewMinisignHash starts the hash that a new signature is made of, BLAKE2b-512
// of the whole file.
func NewMinisignHash() hash.Hash {
	h, err := blake2b.New512(nil)
	if err != nil {
		panic("seal: internal error: BLAKE2b without a key: " + err.Error())
	}
	return h
}

// Sign signs a file by its NewMinisignHash. comment is one line of at most
// MaxComment bytes that the signature covers.
func (k *MinisignPrivate) Sign(sum []byte, comment string) (*MinisignSignature, error) {
	if len(sum) != blake2b.Size {
		return nil, failure{ErrSignature, fmt.Sprintf("a minisign signature is made of %d bytes of BLAKE2b, not %d", blake2b.Size, len(sum))}
	}
	if strings.ContainsAny(comment, "\r\n") {
		return nil, failure{ErrSignature, "the comment of a minisign signature is one line"}
	}
	if len(comment) > MaxComment {
		return nil, failure{ErrSignature, fmt.Sprintf("the comment of a minisign signature has at most %d bytes, which minisign reads, not %d", MaxComment, len(comment))}
	}
	s := &MinisignSignature{KeyID: k.id, Prehashed: true, Comment: comment}
	copy(s.sig[:], ed25519.Sign(k.key, sum))
	copy(s.global[:], ed25519.Sign(k.key, s.covered()))
	return s, nil
}

func (s *MinisignSignature) covered() []byte { return append(s.sig[:], s.Comment...) }

// Check checks the signature against a key. message is the NewMinisignHash of
// the file if s.Prehashed, else the file's bytes. The error is ErrUntrusted for
// a signature by another key, else ErrSignature.
func (s *MinisignSignature) Check(k MinisignKey, message []byte) error {
	if k.ID != s.KeyID {
		return failure{ErrUntrusted, fmt.Sprintf("the signature was made with minisign key %s, not with %s", s.KeyName(), k.Name())}
	}
	if s.Prehashed && len(message) != blake2b.Size {
		return failure{ErrSignature, fmt.Sprintf("a minisign signature is checked with %d bytes of BLAKE2b, not %d", blake2b.Size, len(message))}
	}
	if !ed25519.Verify(k.Key[:], message, s.sig[:]) {
		return failure{ErrSignature, "the minisign signature does not fit: the file was changed after key " + s.KeyName() + " signed it"}
	}
	if !ed25519.Verify(k.Key[:], s.covered(), s.global[:]) {
		return failure{ErrSignature, "the minisign signature's comment was changed after key " + s.KeyName() + " signed it"}
	}
	return nil
}

// CheckFile is Check on an open file, which is read from its start. Only a
// signature of the old kind needs the file in memory, mapped, up to 1 GiB.
// progress may be nil.
func (s *MinisignSignature) CheckFile(ctx context.Context, k MinisignKey, f *os.File, progress func(done, total int64)) error {
	if k.ID != s.KeyID { // before the reading
		return s.Check(k, nil)
	}
	if s.Prehashed {
		sum, err := HashFile(ctx, f, NewMinisignHash(), progress)
		if err != nil {
			return err
		}
		return s.Check(k, sum)
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() > maxLegacy {
		return failure{ErrSignature, "the minisign signature is of the old kind, which ends at 1 GiB: sign the file again with minisign 0.10 or later"}
	}
	data, unmap, err := mapFile(f, info.Size())
	if err != nil {
		return err
	}
	return errors.Join(s.Check(k, data), unmap())
}

// HashFile writes a file, from its start, to h and returns the sum. The error is
// ErrSignature if the file was written to meanwhile: there is no file with that sum,
// or none any more. progress may be nil.
func HashFile(ctx context.Context, f *os.File, h hash.Hash, progress func(done, total int64)) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	buf := make([]byte, 1<<20)
	for off := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, err := f.ReadAt(buf, off)
		_, _ = h.Write(buf[:n]) // a hash takes everything
		off += int64(n)
		if progress != nil {
			progress(off, max(off, info.Size()))
		}
		if err == io.EOF {
			after, err := f.Stat()
			if err != nil {
				return nil, err
			}
			if off != info.Size() || after.Size() != off || !after.ModTime().Equal(info.ModTime()) {
				return nil, failure{ErrSignature, fmt.Sprintf("%s was changed while it was read: wait until nobody writes to it, and try again", f.Name())}
			}
			return h.Sum(nil), nil
		}
		if err != nil {
			return nil, err
		}
	}
}
