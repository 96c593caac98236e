// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/crypto/blake2b"
)

// The algorithms that minisign's files name in two letters.
var (
	algKey       = [2]byte{'E', 'd'} // a key; also a signature of the file itself, as old releases make them
	algPrehashed = [2]byte{'E', 'D'} // a signature of the file's BLAKE2b-512
	algChecksum  = [2]byte{'B', '2'}
	algNoKDF     = [2]byte{}
)

// MinisignKey is a public key of minisign.
type MinisignKey struct {
	ID  [8]byte
	Key [32]byte // Ed25519
}

// MinisignPrivate is a secret key of minisign. Printing one does not show it.
type MinisignPrivate struct {
	id  [8]byte
	key ed25519.PrivateKey
}

// minisignSecret is the content of a secret key file. The key derivation is
// for passwords, which this package does not take.
type minisignSecret struct {
	Alg, KDF, Checksum [2]byte
	Salt               [32]byte
	Ops, Mem           uint64
	ID                 [8]byte
	Key                [64]byte // seed, public key
	Sum                [32]byte // BLAKE2b-256 of Alg, ID and Key; zeros in a key without password
}

// GenerateMinisign draws a new key from the system's generator.
func GenerateMinisign() (*MinisignPrivate, error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	k := &MinisignPrivate{key: key}
	if _, err := rand.Read(k.id[:]); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return k, nil
}

// String shows which key it is, not the key.
func (k *MinisignPrivate) String() string { return "seal.MinisignPrivate(" + k.Public().Name() + ")" }

// GoString is String.
func (k *MinisignPrivate) GoString() string { return k.String() }

// Public is the other half of the key.
func (k *MinisignPrivate) Public() MinisignKey {
	p := MinisignKey{ID: k.id}
	copy(p.Key[:], k.key[ed25519.SeedSize:])
	return p
}

// Name is the key's id as minisign prints it, 16 hex digits.
func (p MinisignKey) Name() string { return minisignName(p.ID) }

func minisignName(id [8]byte) string { return fmt.Sprintf("%016X", binary.LittleEndian.Uint64(id[:])) }

// String is the key in base64, as minisign -P takes it.
func (p MinisignKey) String() string {
	b := append(algKey[:], p.ID[:]...)
	return base64.StdEncoding.EncodeToString(append(b, p.Key[:]...))
}

// File is the content of a public key file.
func (p MinisignKey) File() []byte {
	return fmt.Appendf(nil, "untrusted comment: minisign public key %s\n%s\n", p.Name(), p)
}

// ParseMinisignPublic reads a public key file, or its base64 line alone. The
// error is ErrKey.
func ParseMinisignPublic(text []byte) (MinisignKey, error) {
	var p MinisignKey
	raw, err := minisignLine(text, 2+8+32)
	if err != nil {
		return p, failure{ErrKey, "this is no minisign public key: " + err.Error()}
	}
	if [2]byte(raw) != algKey {
		return p, failure{ErrKey, fmt.Sprintf("this is no minisign public key: its algorithm is %q, not \"Ed\"", raw[:2])}
	}
	copy(p.ID[:], raw[2:])
	copy(p.Key[:], raw[10:])
	return p, nil
}

// file is the content of a secret key file without a password, as minisign -W
// makes it.
func (k *MinisignPrivate) file() []byte {
	s := minisignSecret{Alg: algKey, KDF: algNoKDF, Checksum: algChecksum, ID: k.id}
	copy(s.Key[:], k.key)
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, &s) // of fixed size, into memory
	return fmt.Appendf(nil, "untrusted comment: minisign secret key %s\n%s\n", k.Public().Name(), base64.StdEncoding.EncodeToString(b.Bytes()))
}

// ParseMinisignPrivate reads a secret key file that has no password. The error
// is ErrKey; that of a key with a password says how to take it off.
func ParseMinisignPrivate(text []byte) (*MinisignPrivate, error) {
	var s minisignSecret
	raw, err := minisignLine(text, binary.Size(s))
	if err != nil {
		return nil, failure{ErrKey, "this is no minisign secret key: " + err.Error()}
	}
	defer clear(raw)
	if _, err := binary.Decode(raw, binary.LittleEndian, &s); err != nil {
		return nil, failure{ErrKey, "this is no minisign secret key: " + err.Error()}
	}
	switch {
	case s.Alg != algKey:
		return nil, failure{ErrKey, fmt.Sprintf("this is no minisign secret key: its algorithm is %q, not \"Ed\"", s.Alg[:])}
	case s.KDF != algNoKDF:
		return nil, failure{ErrKey, "this minisign secret key has a password: take it off a copy with minisign -C -W -s COPY"}
	}
	k := &MinisignPrivate{id: s.ID, key: ed25519.NewKeyFromSeed(s.Key[:ed25519.SeedSize])}
	if !bytes.Equal(k.key, s.Key[:]) {
		return nil, failure{ErrKey, "this minisign secret key is damaged: its two halves do not belong together"}
	}
	if s.Sum != [32]byte{} && s.Sum != s.checksum() {
		return nil, failure{ErrKey, "this minisign secret key is damaged: its checksum does not fit"}
	}
	return k, nil
}

func (s *minisignSecret) checksum() [32]byte {
	b := append(s.Alg[:], s.ID[:]...)
	return blake2b.Sum256(append(b, s.Key[:]...))
}

// minisignLine decodes the one line of base64 of a key file, size bytes, with an
// untrusted comment before it or none.
func minisignLine(text []byte, size int) ([]byte, error) {
	lines := keyLines(text)
	if len(lines) != 1 {
		return nil, fmt.Errorf("a key file has one line beside comments, not %d", len(lines))
	}
	return decodeLine(lines[0], size)
}

func decodeLine(line string, size int) ([]byte, error) {
	if want := base64.StdEncoding.EncodedLen(size); len(line) != want {
		return nil, fmt.Errorf("a line of base64 has %d characters, not %d", len(line), want)
	}
	// Strict: no two lines mean the same bytes.
	raw, err := base64.StdEncoding.Strict().DecodeString(line)
	if err != nil {
		return nil, fmt.Errorf("a line is not base64")
	}
	if len(raw) != size {
		return nil, fmt.Errorf("a line of base64 holds %d bytes, not %d", len(raw), size)
	}
	return raw, nil
}

// keyLines are the lines of a key file that are neither empty nor comments.
func keyLines(text []byte) []string {
	var lines []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "untrusted comment:") {
			lines = append(lines, line)
		}
	}
	return lines
}
