// SPDX-License-Identifier: Apache-2.0

package ota

import (
	"crypto/ed25519"
	"fmt"
	"slices"

	"windhover/control"
)

// Key is a public key with the name that messages give it.
type Key struct {
	Name   string
	Public ed25519.PublicKey
}

// Role is a set of keys and how many of them have to sign. A role without keys lets
// nothing through.
type Role struct {
	Keys      []Key
	Threshold int // M of N; below 1 counts as 1
}

// NewRole makes a role; the error is that the threshold cannot be reached or is
// below 1, or that a key is none.
func NewRole(threshold int, keys ...Key) (Role, error) {
	r := Role{Keys: keys, Threshold: threshold}
	different := map[string]bool{}
	for _, k := range keys {
		if len(k.Public) != ed25519.PublicKeySize {
			return Role{}, fmt.Errorf("ota: key %q has %d bytes, want %d", k.Name, len(k.Public), ed25519.PublicKeySize)
		}
		different[string(k.Public)] = true
	}
	if threshold < 1 || threshold > len(different) {
		return Role{}, fmt.Errorf("ota: signatures needed: %d, different keys: %d: set a number from 1 to that", threshold, len(different))
	}
	return r, nil
}

// Keyring says who may sign what. A box with one set of keys gives it all three
// roles; a fleet that keeps its release keys offline gives Desired to others, who
// then can choose among releases and make none.
type Keyring struct {
	Desired Role
	Index   Role
	Release Role // without keys: documents need no release records
}

// count finds the keys that signed a message, by name. Two signatures of one key
// count once, and so does a key that is there under two names.
func (r Role) count(message []byte, signatures []Signature) (signers []string, err error) {
	counted := map[string]bool{}
	for _, s := range signatures {
		named, fits := false, false
		for _, k := range r.Keys {
			if len(k.Public) != ed25519.PublicKeySize || s.KeyID != "" && s.KeyID != KeyID(k.Public) {
				continue
			}
			named = named || s.KeyID != ""
			if !ed25519.Verify(k.Public, message, s.Sig) {
				continue
			}
			fits = true
			if !counted[string(k.Public)] {
				counted[string(k.Public)] = true
				signers = append(signers, k.Name)
			}
		}
		if named && !fits {
			return nil, control.Errorf(control.SignatureInvalid, "the signature of key %s was not made by it, or of something else", s.KeyID)
		}
	}
	slices.Sort(signers)
	return signers, nil
}
