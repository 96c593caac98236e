// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"hash/fnv"
	"testing"
)

// TestOptimalDigest: the bytes of optimised blocks, from values and inputs that
// integers make, are the same on every architecture. The numbers were computed
// on amd64.
func TestOptimalDigest(t *testing.T) {
	const cols, rows, inputs = 192, 16, 300
	s := uint32(0x9E3779B9)
	next := func() float32 {
		s ^= s << 13
		s ^= s >> 17
		s ^= s << 5
		return float32(int32(s>>8)-1<<23) / (1 << 23)
	}
	x, src, weights := make([]float32, inputs*cols), make([]float32, rows*cols), make([]float32, cols)
	for i := range inputs {
		shared := next()
		for c := range cols {
			x[i*cols+c] = (next() + shared) * float32(1+c%5)
		}
	}
	for i := range src {
		src[i] = next() * next() / 16
	}
	for i := range weights {
		weights[i] = float32(next()*next()) + 1
	}
	m := NewMoments(cols, 128)
	if err := gatherer(t, 1, cols).Add(m, x, inputs); err != nil {
		t.Fatal(err)
	}
	f, err := m.Feedback()
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, rows*cols/BlockLen*Q4BlockBytes)
	digest := func() uint64 {
		h := fnv.New64a()
		h.Write(dst)
		return h.Sum64()
	}
	QuantizeQ4Optimal(dst, src, cols, nil)
	even := digest()
	QuantizeQ4Optimal(dst, src, cols, weights)
	weighted := digest()
	QuantizeQ4Feedback(dst, src, f, make([]float32, len(src)))
	if got, want := [3]uint64{even, weighted, digest()}, [3]uint64{0x21258b5f3844f30d, 0x6cedff899d26749e, 0x4d4f8868751fc343}; got != want {
		t.Errorf("digests %#x, want %#x", got, want)
	}
}
