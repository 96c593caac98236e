// SPDX-License-Identifier: Apache-2.0

package ota

import (
	"encoding/hex"
	"fmt"
)

// Digest is a SHA-256. In JSON it is 64 hex digits.
type Digest [32]byte

// String gives the hex digits, lower case.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText is String.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads 64 hex digits of either case.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) != 2*len(d) {
		return fmt.Errorf("a SHA-256 has 64 hex digits, here are %d", len(text))
	}
	_, err := hex.Decode(d[:], text)
	return err
}
