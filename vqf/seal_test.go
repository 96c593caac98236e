// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"encoding/binary"
	"encoding/hex"
	"testing"

	"windhover/internal/testsm2"
	"windhover/vqf"
	"windhover/vqf/seal"
)

// What the vectors of docs/FORMAT.md section 17.6 are made with.
const (
	vectorPassphrase = "correct horse battery staple"
	vectorD          = "1111111111111111111111111111111111111111111111111111111111111111"
	vectorK          = "2222222222222222222222222222222222222222222222222222222222222222"
)

func vectorKey(t testing.TB) *seal.Key {
	t.Helper()
	return passphrase(t, vectorPassphrase)
}

func passphrase(t testing.TB, p string) *seal.Key {
	t.Helper()
	k, err := seal.KeyFromPassphrase([]byte(p))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func private(t testing.TB, digits string) *seal.PrivateKey {
	t.Helper()
	k, err := seal.ParseSM2Private(digits)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// sealing says how sealedBytes is to make a file.
type sealing struct {
	key *seal.Key // nil: stays plain
	iv  [16]byte
	id  string // empty: not signed
}

func vectorIV() (iv [16]byte) {
	for i := range iv {
		iv[i] = byte(i)
	}
	return iv
}

// sealedBytes encrypts and signs a plain file by the letter of docs/FORMAT.md
// sections 9 and 10, for either header: a second implementation, on bytes, that
// knows nothing of the one it tests.
func sealedBytes(t testing.TB, plain []byte, fields int, s sealing) []byte {
	t.Helper()
	le := binary.LittleEndian
	tail, size := 184, 432
	if fields == 45 {
		tail, size = 200, 448
	}
	b := append([]byte(nil), plain[:len(plain)-8]...)
	dir := b[448 : 448+64*int(le.Uint32(b[12:]))]
	data := b[le.Uint64(b[tail:]):]
	if s.key != nil {
		b[8] |= 0x80
		copy(b[tail+16:], s.iv[:])
	}
	if s.id != "" {
		b[9] |= 1
	}
	canonical := append([]byte(nil), b[:size]...)
	clear(canonical[tail+8 : tail+16])
	clear(canonical[tail+48 : tail+248])
	if s.id != "" {
		h := seal.NewSM3()
		h.Write(canonical)
		h.Write(dir)
		h.Write(data)
		digest := [32]byte(h.Sum(nil))
		r, sv := sm2Sign(t, vectorD, vectorK, s.id, digest)
		block := b[tail+48:]
		pub := private(t, vectorD).Public()
		copy(block, pub[:])
		copy(block[64:], r[:])
		copy(block[96:], sv[:])
		copy(block[128:], digest[:])
		copy(block[160:], s.id)
		le.PutUint32(block[192:], uint32(len(s.id)))
	}
	if s.key == nil {
		return append(b, plain[len(plain)-8:]...) // the checksum covers neither header nor signature
	}
	stream, err := s.key.Stream(s.iv)
	if err != nil {
		t.Fatal(err)
	}
	stream.XORKeyStreamAt(data, data, 0)
	tag := s.key.NewTag()
	tag.Write(canonical)
	tag.Write(dir)
	tag.Write(data)
	return tag.Sum(b)
}

// sm2Sign signs with a nonce of the caller's, as only vectors may.
func sm2Sign(t testing.TB, dHex, kHex, id string, digest [32]byte) (r, s [32]byte) {
	t.Helper()
	number := func(digits string) (n [32]byte) {
		if _, err := hex.Decode(n[:], []byte(digits)); err != nil {
			t.Fatal(err)
		}
		return n
	}
	return testsm2.Sign(number(dHex), number(kHex), id, digest[:])
}

// sealedMini is a file of the vectors' model, sealed.
func sealedMini(t *testing.T, mode vqf.Mode, fields int, s sealing, extra map[string]string) (plain, sealed []byte) {
	t.Helper()
	path, _ := writeMini(t, miniSpec(mode, fields), nil, extra)
	plain = readFile(t, path)
	return plain, sealedBytes(t, plain, fields, s)
}
