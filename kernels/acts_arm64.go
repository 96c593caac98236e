// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

type packed struct{}

// initPack and packActs have nothing to do: the arm64 kernels read the codes as
// they are.
func (*packed) initPack(maxTokens, cols int) {}

func (*packed) packActs(a *Acts, from, to int) {}

func (*packed) rows(from, n, cols int) packed { return packed{} }

func quantizeActs(q []int8, d []float32, sum []int32, x []float32) {
	if len(d) == 0 || !useNEON {
		quantizeActsGeneric(q, d, sum, x)
		return
	}
	n := len(d)
	_, _, _ = q[n*BlockLen-1], sum[n-1], x[n*BlockLen-1]
	quantizeActsNEON(&q[0], &d[0], &sum[0], &x[0], n)
}

//go:noescape
func quantizeActsNEON(q *int8, d *float32, sum *int32, x *float32, blocks int)
