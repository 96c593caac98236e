// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"crypto/cipher"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync"

	"github.com/emmansun/gmsm/sm4"
)

// Stream is the key stream of one file: SM4 in counter mode, one contiguous run
// over the whole data area.
type Stream struct {
	block  cipher.Block
	many   cipher.BlockMode // enciphers blocks side by side and keeps no state; nil where the library has none
	hi, lo uint64           // the first counter block, a 128-bit number
}

// streamBytes of key stream are made at once: a multiple of every number of blocks
// that the library does side by side, and little enough for the nearest cache.
const streamBytes = 4096

// streamScratch holds *[streamBytes]byte, so that deciphering allocates nothing.
var streamScratch = sync.Pool{New: func() any { return new([streamBytes]byte) }}

// Stream gives the key stream of a file whose header holds iv.
func (k *Key) Stream(iv [16]byte) (*Stream, error) {
	block, err := sm4.NewCipher(k.cipher[:])
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	s := &Stream{block: block, hi: binary.BigEndian.Uint64(iv[:8]), lo: binary.BigEndian.Uint64(iv[8:])}
	// The library's own counter mode does half the speed of enciphering a run of
	// counter blocks one by one, save where the CPU has instructions for SM4; there
	// the library offers no such thing.
	if e, ok := block.(interface{ NewECBEncrypter() cipher.BlockMode }); ok {
		s.many = e.NewECBEncrypter()
	}
	return s, nil
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
	dst = dst[:len(src)]
	// The counter of block n is iv + n, carried over all 16 bytes.
	lo, carry := bits.Add64(s.lo, uint64(off)/sm4.BlockSize, 0)
	hi, _ := bits.Add64(s.hi, 0, carry)
	skip := int(off % sm4.BlockSize)
	if s.many == nil {
		s.counterMode(dst, src, hi, lo, skip)
		return
	}
	buf := streamScratch.Get().(*[streamBytes]byte)
	defer streamScratch.Put(buf)
	for len(src) > 0 {
		n := min(len(src), streamBytes-skip)
		run := buf[:(skip+n+sm4.BlockSize-1)/sm4.BlockSize*sm4.BlockSize]
		for b := 0; b < len(run); b += sm4.BlockSize {
			binary.BigEndian.PutUint64(run[b:], hi)
			binary.BigEndian.PutUint64(run[b+8:], lo)
			lo, carry = bits.Add64(lo, 1, 0)
			hi, _ = bits.Add64(hi, 0, carry)
		}
		s.many.CryptBlocks(run, run)
		subtle.XORBytes(dst[:n], src[:n], run[skip:])
		dst, src, skip = dst[n:], src[n:], 0
	}
}

// counterMode is the same by the library's counter mode, from a counter block on;
// skip bytes of its key stream are left out.
func (s *Stream) counterMode(dst, src []byte, hi, lo uint64, skip int) {
	var iv, unused [sm4.BlockSize]byte
	binary.BigEndian.PutUint64(iv[:8], hi)
	binary.BigEndian.PutUint64(iv[8:], lo)
	ctr := cipher.NewCTR(s.block, iv[:])
	ctr.XORKeyStream(unused[:skip], unused[:skip])
	ctr.XORKeyStream(dst, src)
}
