// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"math/big"

	"github.com/emmansun/gmsm/sm2"
	"github.com/emmansun/gmsm/sm3"
)

// Signer ids of the signature block, docs/FORMAT.md section 10. A signature
// counts only with the id it was made with; readers accept these two.
const (
	IDKestrel = "vllm-kestrel-vqf" // written
	IDShs     = "vllm-shs-vqf"     // older files
)

// KnownID reports whether id is one of the two that readers accept.
func KnownID(id string) bool { return id == IDKestrel || id == IDShs }

// PublicKey is an SM2 public key, x and y, big-endian.
type PublicKey [64]byte

// PrivateKey is an SM2 private key. Printing one does not show it.
type PrivateKey struct {
	key *sm2.PrivateKey
	pub PublicKey
}

// String shows which key it is, not the key.
func (k *PrivateKey) String() string { return "seal.PrivateKey(of " + k.pub.Fingerprint() + ")" }

// GoString is String.
func (k *PrivateKey) GoString() string { return k.String() }

// GenerateSM2 draws a new key from the system's generator.
func GenerateSM2() (*PrivateKey, error) {
	key, err := sm2.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return newPrivateKey(key)
}

func newPrivateKey(key *sm2.PrivateKey) (*PrivateKey, error) {
	point, err := sm2.PublicKeyToECDH(&key.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	k := &PrivateKey{key: key}
	copy(k.pub[:], point.Bytes()[1:]) // behind the mark of an uncompressed point
	return k, nil
}

// ParseSM2Private reads 64 hex digits, a number from 1 to n-2. The error is
// ErrKey and does not repeat the digits.
func ParseSM2Private(s string) (*PrivateKey, error) {
	if len(s) != 64 {
		return nil, failure{ErrKey, fmt.Sprintf("an SM2 private key has 64 hex digits, here are %d characters", len(s))}
	}
	raw, err := hex.DecodeString(s)
	if err != nil {
		return nil, failure{ErrKey, "an SM2 private key has hex digits only"}
	}
	key, err := sm2.NewPrivateKey(raw)
	clear(raw)
	if err != nil {
		return nil, failure{ErrKey, "this number is no SM2 private key: it is 0, or too large for the curve"}
	}
	return newPrivateKey(key)
}

// ParseSM2Public reads 128 hex digits, x and y of a point on the curve. The error
// is ErrKey.
func ParseSM2Public(s string) (PublicKey, error) {
	var p PublicKey
	if len(s) != 2*len(p) {
		return p, failure{ErrKey, fmt.Sprintf("an SM2 public key has 128 hex digits, here are %d characters", len(s))}
	}
	raw, err := hex.DecodeString(s)
	if err != nil {
		return p, failure{ErrKey, "an SM2 public key has hex digits only"}
	}
	copy(p[:], raw)
	if _, err := p.point(); err != nil {
		return PublicKey{}, err
	}
	return p, nil
}

// point is the key as gmsm takes it, after the check that it is on the curve.
func (p PublicKey) point() (*ecdsa.PublicKey, error) {
	key, err := sm2.NewPublicKey(append([]byte{4}, p[:]...)) // 4: an uncompressed point
	if err != nil {
		return nil, failure{ErrKey, "this is no SM2 public key: the point is not on the curve"}
	}
	return key, nil
}

// String is the key in hex, as key files hold it.
func (p PublicKey) String() string { return hex.EncodeToString(p[:]) }

// Fingerprint is a short name of the key: the first 16 bytes of its SM3, in hex.
func (p PublicKey) Fingerprint() string {
	sum := sm3.Sum(p[:])
	return hex.EncodeToString(sum[:16])
}

// Public is the other half of the key.
func (k *PrivateKey) Public() PublicKey { return k.pub }

// Sign signs digest for the signer id. Two signatures of one digest differ. r
// and s are big-endian, as the signature block holds them.
func (k *PrivateKey) Sign(id string, digest [32]byte) (r, s [32]byte, err error) {
	if err := checkID(id); err != nil {
		return r, s, err
	}
	der, err := sm2.SignASN1(rand.Reader, k.key, digest[:], sm2.NewSM2SignerOption(true, []byte(id)))
	if err != nil {
		return r, s, fmt.Errorf("seal: %w", err)
	}
	var sig struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &sig); err != nil {
		return r, s, fmt.Errorf("seal: %w", err)
	}
	sig.R.FillBytes(r[:])
	sig.S.FillBytes(s[:])
	return r, s, nil
}

// Verify reports whether (r, s) is the signature of digest by this key for the
// signer id. A key that is not on the curve verifies nothing.
func (p PublicKey) Verify(id string, digest, r, s [32]byte) bool {
	if checkID(id) != nil {
		return false
	}
	key, err := p.point()
	if err != nil {
		return false
	}
	der, err := asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(r[:]), new(big.Int).SetBytes(s[:])})
	return err == nil && sm2.VerifyASN1WithSM2(key, []byte(id), digest[:], der)
}

// checkID keeps an empty id out, for which gmsm would take a default, and one
// that the signature block could not hold.
func checkID(id string) error {
	if len(id) == 0 || len(id) > 32 {
		return failure{ErrSignature, fmt.Sprintf("a signer id has 1 to 32 bytes, not %d", len(id))}
	}
	return nil
}
