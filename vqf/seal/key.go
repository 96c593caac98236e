// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"hash"
	"time"

	"github.com/emmansun/gmsm/sm3"
)

// TagSize is the length of the tag that ends an encrypted file.
const TagSize = sm3.Size

// Key encrypts and authenticates files: docs/FORMAT.md section 9. Printing one
// does not show it.
type Key struct {
	cipher [16]byte // SM4
	mac    [16]byte // HMAC-SM3
}

// String hides the key, for every way of printing it.
func (Key) String() string { return "seal.Key(hidden)" }

// GoString is String.
func (k Key) GoString() string { return k.String() }

// KeyFromPassphrase makes the key of a passphrase, whose bytes count as they
// are. The error is ErrPassphrase: empty, or a NUL inside, which the environment
// variable that carries it on other engines could not hold.
func KeyFromPassphrase(p []byte) (*Key, error) {
	if len(p) == 0 {
		return nil, failure{ErrPassphrase, "the passphrase is empty"}
	}
	if bytes.IndexByte(p, 0) >= 0 {
		return nil, failure{ErrPassphrase, "the passphrase holds a NUL byte: other engines could not take it"}
	}
	sum := sm3.Sum(p)
	k := new(Key)
	copy(k.cipher[:], sum[:16])
	copy(k.mac[:], sum[16:])
	clear(sum[:])
	return k, nil
}

// ReadKeyFile makes the key of a file that holds a passphrase: all of its bytes
// (at most 64 KiB) but for one newline at the end, which editors add and nobody
// types. It is for a path that somebody has just given, which may be a pipe, as
// that of a shell's <(…): one that nobody writes to is at its end at once, any
// other within two minutes. Errors name the file.
func ReadKeyFile(path string) (*Key, error) { return readKey(path, pipeWait) }

// ReadStoredKeyFile is ReadKeyFile for a service, whose passphrase lies in a regular
// file: anything else is an error, ErrKey, and not waited for.
func ReadStoredKeyFile(path string) (*Key, error) { return readKey(path, 0) }

func readKey(path string, wait time.Duration) (*Key, error) {
	p, err := readSmall(path, wait)
	if err != nil {
		return nil, err
	}
	defer clear(p)
	text := bytes.TrimSuffix(p, []byte("\n"))
	if len(text) < len(p) {
		text = bytes.TrimSuffix(text, []byte("\r"))
	}
	k, err := KeyFromPassphrase(text)
	if err != nil {
		return nil, failure{ErrPassphrase, fmt.Sprintf("%s: %v", path, err)}
	}
	return k, nil
}

// NewTag starts the tag of a file, HMAC-SM3 of what is written to it.
func (k *Key) NewTag() hash.Hash { return hmac.New(sm3.New, k.mac[:]) }

// NewSM3 starts the digest that a signature is made of.
func NewSM3() hash.Hash { return sm3.New() }

// NewIV draws the first counter block of a file. Two files under one passphrase
// must not share key stream, so it comes from the system's generator.
func NewIV() (iv [16]byte, err error) {
	_, err = rand.Read(iv[:])
	return iv, err
}

// Equal compares two tags or digests in a time that does not depend on where
// they differ.
func Equal(a, b []byte) bool { return subtle.ConstantTimeCompare(a, b) == 1 }
