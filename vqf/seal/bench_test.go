// SPDX-License-Identifier: Apache-2.0

package seal_test

import (
	"testing"

	"windhover/vqf/seal"
)

const benchSize = 1 << 20

func BenchmarkSM3(b *testing.B) {
	h, buf := seal.NewSM3(), make([]byte, benchSize)
	b.SetBytes(benchSize)
	for b.Loop() {
		_, _ = h.Write(buf) // a hash takes everything
	}
}

func BenchmarkTag(b *testing.B) {
	h, buf := vectorKey(b).NewTag(), make([]byte, benchSize)
	b.SetBytes(benchSize)
	for b.Loop() {
		_, _ = h.Write(buf) // a hash takes everything
	}
}

func BenchmarkStream(b *testing.B) {
	s, err := vectorKey(b).Stream([16]byte{})
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, benchSize)
	b.SetBytes(benchSize)
	for b.Loop() {
		s.XORKeyStreamAt(buf, buf, 12345)
	}
}

func BenchmarkMinisignHash(b *testing.B) {
	h, buf := seal.NewMinisignHash(), make([]byte, benchSize)
	b.SetBytes(benchSize)
	for b.Loop() {
		_, _ = h.Write(buf) // a hash takes everything
	}
}

func BenchmarkSM2Sign(b *testing.B) {
	k, err := seal.GenerateSM2()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, _, err := k.Sign(seal.IDKestrel, [32]byte{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSM2Verify(b *testing.B) {
	k, err := seal.GenerateSM2()
	if err != nil {
		b.Fatal(err)
	}
	r, s, err := k.Sign(seal.IDKestrel, [32]byte{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if !k.Public().Verify(seal.IDKestrel, [32]byte{}, r, s) {
			b.Fatal("the signature does not verify")
		}
	}
}
