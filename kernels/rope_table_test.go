// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/big"
	"testing"
)

// maxPosition is the largest position of any model here, and one.
const maxPosition = 1 << 20

func TestRopeTables(t *testing.T) {
	const hd = 64
	freqs := RopeFreqs(1e6, hd)
	if freqs[0] != 1 || math.Abs(freqs[16]-1e-3) > 1e-15 {
		t.Errorf("frequencies %v and %v, want 1 and 0.001", freqs[0], freqs[16])
	}
	cos, sin := make([]float32, hd/2), make([]float32, hd/2)
	RopeRow(cos, sin, freqs, 0)
	for i := range cos {
		if cos[i] != 1 || sin[i] != 0 {
			t.Fatalf("position 0, pair %d: %v, %v, want 1, 0", i, cos[i], sin[i])
		}
	}
	// Against angles reduced by 2π in 200 bits: float64 holds the angle of the
	// largest position well enough for a float32 table.
	twoPi, _, err := big.ParseFloat("6.28318530717958647692528676655900576839433879875021164194988918461563", 10, 200, big.ToNearestEven)
	if err != nil {
		t.Fatal(err)
	}
	for _, pos := range []int{1, 300, 8191, maxPosition - 1} {
		RopeRow(cos, sin, freqs, pos)
		for i, f := range freqs {
			angle := new(big.Float).SetPrec(200).SetFloat64(f)
			angle.Mul(angle, new(big.Float).SetInt64(int64(pos)))
			turns, _ := new(big.Float).Quo(angle, twoPi).Int(nil)
			angle.Sub(angle, new(big.Float).SetPrec(200).Mul(twoPi, new(big.Float).SetInt(turns)))
			rest, _ := angle.Float64()
			s, c := math.Sincos(rest)
			if math.Abs(float64(cos[i])-c) > 1e-7 || math.Abs(float64(sin[i])-s) > 1e-7 {
				t.Errorf("position %d, pair %d: %v, %v, want %v, %v", pos, i, cos[i], sin[i], c, s)
			}
		}
	}
}

func TestRopeFreqs(t *testing.T) {
	for _, theta := range []float64{1e4, 1e5, 5e5, 1e6, 5e6, 2} {
		for _, hd := range []int{2, 16, 64, 128, 256} {
			for i, got := range RopeFreqs(theta, hd) {
				want := math.Pow(theta, -2*float64(i)/float64(hd))
				if math.Abs(got-want) > 1e-13*want {
					t.Errorf("theta %g, head_dim %d, pair %d: %v, want %v", theta, hd, i, got, want)
				}
			}
		}
	}
}

// One digest that every architecture must produce: a table entry of another bit
// would make other tokens.
func TestRopeTablesDigest(t *testing.T) {
	const want = 0x63989c5b8eaa29d8
	h := fnv.New64a()
	for _, theta := range []float64{1e4, 1e5, 5e5, 1e6, 5e6} {
		freqs := RopeFreqs(theta, 128)
		cos, sin := make([]float32, len(freqs)), make([]float32, len(freqs))
		for pos := 0; pos < maxPosition; pos += 1 + pos/16 {
			RopeRow(cos, sin, freqs, pos)
			for i := range cos {
				var b [8]byte
				binary.LittleEndian.PutUint32(b[:], math.Float32bits(cos[i]))
				binary.LittleEndian.PutUint32(b[4:], math.Float32bits(sin[i]))
				_, _ = h.Write(b[:]) // a hash never fails to write
			}
		}
	}
	if got := h.Sum64(); got != want {
		t.Errorf("digest %#x, want %#x", got, uint64(want))
	}
}
