// SPDX-License-Identifier: Apache-2.0

// Package seal holds the keys of weight files: the passphrase that encrypts one
// (docs/FORMAT.md section 9), the SM2 keys that sign one inside (section 10),
// minisign signatures beside one, and the directory of keys that a box trusts.
//
// It knows nothing of the file's structure: package vqf feeds it the bytes. SM2,
// SM3 and SM4 come from github.com/emmansun/gmsm, Ed25519 and BLAKE2b from the
// standard library and golang.org/x/crypto; no primitive is written here.
//
// Start with [ReadKeyFile] for an encrypted file, [ReadSigningKey] to sign,
// [LoadTrust] to check signatures.
package seal

import "errors"

// Reasons, for errors.Is. Each error says more.
var (
	ErrPassphrase = errors.New("seal: passphrase")        // empty, too long, or with a NUL inside
	ErrKey        = errors.New("seal: key")               // a key, or a file with one, is not well formed
	ErrSignature  = errors.New("seal: signature")         // is not well formed, or does not fit the file
	ErrUntrusted  = errors.New("seal: signature, signer") // was made by another key than those given
)

// failure is an error of one of the kinds above whose message stands alone.
type failure struct {
	kind error
	msg  string
}

func (f failure) Error() string { return f.msg }
func (f failure) Unwrap() error { return f.kind }
