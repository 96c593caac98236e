// SPDX-License-Identifier: Apache-2.0

// Package testsm2 computes SM2 signatures with a given nonce, for tests that
// compare with published ones. It follows GB/T 32918.2 with numbers of any size,
// affine points and no care for time: nothing but a test may use it, since a
// nonce that is used twice gives the private key away. Package vqf/seal signs.
package testsm2

import (
	"crypto/elliptic"
	"encoding/binary"
	"math/big"

	"github.com/emmansun/gmsm/sm2"
	"github.com/emmansun/gmsm/sm3"
)

// params are the numbers of the curve only: its own arithmetic is not used.
func params() *elliptic.CurveParams { return sm2.P256().Params() }

// point is an affine point; a nil x is the point at infinity.
type point struct{ x, y *big.Int }

func (p point) add(q point) point {
	m := params().P
	if p.x == nil {
		return q
	}
	if q.x == nil {
		return p
	}
	var slope *big.Int
	if p.x.Cmp(q.x) == 0 {
		if new(big.Int).Mod(new(big.Int).Add(p.y, q.y), m).Sign() == 0 {
			return point{}
		}
		// (3x² + a) / 2y with a = -3
		slope = new(big.Int).Mul(p.x, p.x)
		slope.Sub(slope, big.NewInt(1)).Mul(slope, big.NewInt(3))
		slope.Mul(slope, new(big.Int).ModInverse(new(big.Int).Lsh(p.y, 1), m))
	} else {
		dx := new(big.Int).Sub(q.x, p.x)
		slope = new(big.Int).Sub(q.y, p.y)
		slope.Mul(slope, new(big.Int).ModInverse(dx.Mod(dx, m), m))
	}
	slope.Mod(slope, m)
	x := new(big.Int).Mul(slope, slope)
	x.Sub(x, p.x).Sub(x, q.x).Mod(x, m)
	y := new(big.Int).Sub(p.x, x)
	y.Mul(y, slope).Sub(y, p.y).Mod(y, m)
	return point{x, y}
}

func (p point) times(k *big.Int) point {
	var sum point
	for i := k.BitLen() - 1; i >= 0; i-- {
		if sum = sum.add(sum); k.Bit(i) == 1 {
			sum = sum.add(p)
		}
	}
	return sum
}

func base() point { return point{params().Gx, params().Gy} }

// Public is the public key of the private key d, x and y.
func Public(d [32]byte) (p [64]byte) {
	q := base().times(new(big.Int).SetBytes(d[:]))
	q.x.FillBytes(p[:32])
	q.y.FillBytes(p[32:])
	return p
}

// Z is the digest of a signer's id and public key.
func Z(id string, pub [64]byte) [32]byte {
	c := params()
	b := binary.BigEndian.AppendUint16(nil, uint16(8*len(id)))
	b = append(b, id...)
	a := new(big.Int).Sub(c.P, big.NewInt(3))
	for _, n := range []*big.Int{a, c.B, c.Gx, c.Gy} {
		b = append(b, n.FillBytes(make([]byte, 32))...)
	}
	return sm3.Sum(append(b, pub[:]...))
}

// Sign signs message for the signer id with the private key d and the nonce k.
// It panics where a signer would draw another nonce.
func Sign(d, k [32]byte, id string, message []byte) (r, s [32]byte) {
	n := params().N
	z := Z(id, Public(d))
	sum := sm3.Sum(append(z[:], message...))
	key, nonce := new(big.Int).SetBytes(d[:]), new(big.Int).SetBytes(k[:])
	// r = (e + x1) mod n; s = (k - r·d) / (1 + d) mod n
	rn := new(big.Int).Add(new(big.Int).SetBytes(sum[:]), base().times(nonce).x)
	rn.Mod(rn, n)
	sn := new(big.Int).Sub(nonce, new(big.Int).Mul(rn, key))
	sn.Mul(sn, new(big.Int).ModInverse(new(big.Int).Add(key, big.NewInt(1)), n)).Mod(sn, n)
	if rn.Sign() == 0 || sn.Sign() == 0 || new(big.Int).Add(rn, nonce).Cmp(n) == 0 {
		panic("testsm2: this nonce gives no signature")
	}
	rn.FillBytes(r[:])
	sn.FillBytes(s[:])
	return r, s
}
