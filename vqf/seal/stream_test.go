// SPDX-License-Identifier: Apache-2.0

package seal_test

import (
	"bytes"
	"crypto/cipher"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/emmansun/gmsm/sm4"

	"windhover/vqf/seal"
)

// ivs are first counter blocks whose carry goes through a byte, through the low
// 64 bits, and around the end of all 128 within a few blocks.
var ivs = map[string][16]byte{
	"plain":  {0: 7, 15: 1},
	"byte":   {15: 0xfe},
	"low 64": {7: 0x41, 8: 0xff, 9: 0xff, 10: 0xff, 11: 0xff, 12: 0xff, 13: 0xff, 14: 0xff, 15: 0xfa},
	"all": {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfb},
}

// A piece of the stream at any offset is that piece of the one contiguous stream,
// which is the standard library's counter mode over the block cipher.
func TestStreamPieces(t *testing.T) {
	key := vectorKey(t)
	block, err := sm4.NewCipher(sm3([]byte("correct horse battery staple"))[:16])
	if err != nil {
		t.Fatal(err)
	}
	for name, iv := range ivs {
		t.Run(name, func(t *testing.T) {
			s, err := key.Stream(iv)
			if err != nil {
				t.Fatal(err)
			}
			plain := make([]byte, 5000)
			r := rand.New(rand.NewPCG(1, 2))
			for i := range plain {
				plain[i] = byte(r.Uint32())
			}
			want := make([]byte, len(plain))
			cipher.NewCTR(plainBlock{block}, iv[:]).XORKeyStream(want, plain)
			got := make([]byte, len(plain))
			s.XORKeyStreamAt(got, plain, 0)
			if !bytes.Equal(got, want) {
				t.Fatal("the whole stream differs from crypto/cipher's")
			}
			for range 2000 {
				off := r.IntN(len(plain) + 1)
				n := r.IntN(min(len(plain)-off, 300) + 1)
				piece := bytes.Clone(plain[off : off+n])
				s.XORKeyStreamAt(piece, piece, int64(off)) // in place
				if !bytes.Equal(piece, want[off:off+n]) {
					t.Fatalf("%d bytes at %d differ from the whole stream", n, off)
				}
			}
		})
	}
}

// plainBlock hides gmsm's own counter mode, so that crypto/cipher's is compared.
type plainBlock struct{ b cipher.Block }

func (p plainBlock) BlockSize() int          { return p.b.BlockSize() }
func (p plainBlock) Encrypt(dst, src []byte) { p.b.Encrypt(dst, src) }
func (p plainBlock) Decrypt(dst, src []byte) { p.b.Decrypt(dst, src) }

// Far behind the end of any file the block number is still added to the whole
// counter.
func TestStreamFarOffset(t *testing.T) {
	key := vectorKey(t)
	const far = 1 << 62 // block 2^58
	s, err := key.Stream([16]byte{0: 1, 8: 0xff, 9: 0xff})
	if err != nil {
		t.Fatal(err)
	}
	shifted, err := key.Stream([16]byte{0: 1, 7: 1, 8: 0x03, 9: 0xff}) // the same plus 2^58
	if err != nil {
		t.Fatal(err)
	}
	got, want := make([]byte, 100), make([]byte, 100)
	s.XORKeyStreamAt(got, got, far)
	shifted.XORKeyStreamAt(want, want, 0)
	if !bytes.Equal(got, want) {
		t.Errorf("at 2^62:\n%x, want\n%x", got, want)
	}
}

func TestStreamConcurrent(t *testing.T) {
	s, err := vectorKey(t).Stream([16]byte{15: 9})
	if err != nil {
		t.Fatal(err)
	}
	want := make([]byte, 1<<16)
	s.XORKeyStreamAt(want, want, 0)
	got := make([]byte, len(want))
	var wg sync.WaitGroup
	const part = 1001
	for off := 0; off < len(got); off += part {
		wg.Go(func() {
			piece := got[off:min(off+part, len(got))]
			s.XORKeyStreamAt(piece, piece, int64(off))
		})
	}
	wg.Wait()
	if !bytes.Equal(got, want) {
		t.Error("pieces made at the same time differ from the whole stream")
	}
}

func TestStreamNegativeOffset(t *testing.T) {
	s, err := vectorKey(t).Stream([16]byte{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a negative offset was taken")
		}
	}()
	s.XORKeyStreamAt(make([]byte, 1), make([]byte, 1), -1)
}

func TestNewIV(t *testing.T) {
	a, err := seal.NewIV()
	if err != nil {
		t.Fatal(err)
	}
	b, err := seal.NewIV()
	if err != nil {
		t.Fatal(err)
	}
	if a == b || a == [16]byte{} {
		t.Errorf("two IVs: %x, %x", a, b)
	}
}
