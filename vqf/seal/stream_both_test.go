// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"bytes"
	"crypto/cipher"
	"testing"

	"github.com/emmansun/gmsm/sm4"
)

// The two ways to the key stream give the same bytes, at every place within a
// block, over the ends of scratch, and where the counter carries.
func TestBothWaysToTheStream(t *testing.T) {
	k, err := KeyFromPassphrase([]byte("p"))
	if err != nil {
		t.Fatal(err)
	}
	iv := bytes.Repeat([]byte{0xff}, 16)
	iv[15] = 0xf0
	s, err := k.Stream([16]byte(iv))
	if err != nil {
		t.Fatal(err)
	}
	if s.many == nil {
		t.Skip("the library has one way only on this CPU")
	}
	slow := *s
	slow.many = nil
	block, err := sm4.NewCipher(k.cipher[:])
	if err != nil {
		t.Fatal(err)
	}
	const most = 3*streamBytes + 100
	want := make([]byte, most)
	cipher.NewCTR(block, iv).XORKeyStream(want, want)
	for _, off := range []int{0, 1, 15, 16, 17, 100, streamBytes - 1, streamBytes, streamBytes + 33} {
		for _, n := range []int{1, 15, 16, 17, 4095, 4096, 4097, 2*streamBytes - 5} {
			for name, way := range map[string]*Stream{"blocks": s, "counter mode": &slow} {
				got := make([]byte, n)
				way.XORKeyStreamAt(got, got, int64(off))
				if !bytes.Equal(got, want[off:off+n]) {
					t.Errorf("%s: %d bytes from %d on differ", name, n, off)
				}
			}
		}
	}
}

func TestStreamAllocatesNothing(t *testing.T) {
	k, err := KeyFromPassphrase([]byte("p"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := k.Stream([16]byte{})
	if err != nil {
		t.Fatal(err)
	}
	if s.many == nil {
		t.Skip("the library's counter mode allocates")
	}
	buf := make([]byte, 100_000)
	total := testing.AllocsPerRun(100, func() { s.XORKeyStreamAt(buf, buf, 7) })
	if total > 0.5 { // the pool of scratch may be emptied by a collection in between
		t.Errorf("%v allocations a call, want 0", total)
	}
}
