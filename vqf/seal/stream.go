// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/emmansun/gmsm/sm4"
)

// Stream is the key stream of one file: SM4 in counter mode, one contiguous run
// over the whole data area.
type Stream struct {
	block  cipher.Block
	hi, lo uint64 // the first counter block, a 128-bit number
}

// Stream gives the key stream of a file whose header holds iv.
func (k *Key) Stream(iv [16]byte) (*Stream, error) {
	block, err := sm4.NewCipher(k.cipher[:])
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return &Stream{block: block, hi: binary.BigEndian.Uint64(iv[:8]), lo: binary.BigEndian.Uint64(iv[8:])}, nil
}

// XORKeyStreamAt encrypts or decrypts src, the bytes that stand off bytes after
// the start of the data area, into dst. dst is at least as long as src and may
// be src; else they must not overlap. off may be any number that is not
// negative. Calls may run at the same time.
func (s *Stream) XORKeyStreamAt(dst, src []byte, off int64) {
	if off < 0 {
		panic("seal: internal error: negative offset in the key stream")
	}
	if len(src) == 0 {
		return
	}
	// The counter of block n is iv + n, carried over all 16 bytes.
	var iv [16]byte
	lo, carry := bits.Add64(s.lo, uint64(off)/sm4.BlockSize, 0)
	hi, _ := bits.Add64(s.hi, 0, carry)
	binary.BigEndian.PutUint64(iv[:8], hi)
	binary.BigEndian.PutUint64(iv[8:], lo)
	ctr := cipher.NewCTR(s.block, iv[:])
	if skip := off % sm4.BlockSize; skip > 0 {
		var unused [sm4.BlockSize]byte
		ctr.XORKeyStream(unused[:skip], unused[:skip])
	}
	ctr.XORKeyStream(dst, src)
}
