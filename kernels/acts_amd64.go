// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

// packed is what the kernels read beside the plain codes.
type packed struct {
	bias []int32 // [tokens][Cols/32] -128 times the sum of the codes

	// Tiles of tileTokens tokens (gemm_amd64.go), nil if there is never more than one.
	packQ   []int8
	packD   []float32
	packSum []int32
}

func (p *packed) initPack(maxTokens, cols int) {
	p.bias = make([]int32, maxTokens*cols/BlockLen)
	if maxTokens == 1 {
		return
	}
	tiles := (maxTokens + tileTokens - 1) / tileTokens
	p.packQ = make([]int8, tiles*tileTokens*cols)
	p.packD = make([]float32, tiles*tileTokens*cols/BlockLen)
	p.packSum = make([]int32, tiles*tileTokens*cols/BlockLen)
}

// packActs makes the bias of tokens [from,to) and puts them into their tiles. Workers call it at the same time for disjoint ranges, a.Tokens being set: a
// token's places are its own.
func (p *packed) packActs(a *Acts, from, to int) {
	nb := a.Cols / BlockLen
	if !useAVX2 || nb == 0 || from == to {
		return
	}
	for b := from * nb; b < to*nb; b++ {
		p.bias[b] = -128 * a.Sum[b]
	}
	if a.Tokens == 1 {
		return
	}
	for t := from; t < to; t++ {
		tile, i := t/tileTokens*nb*tileTokens, t%tileTokens
		packToken(&p.packQ[(tile+i)*BlockLen], &p.packD[tile+i], &p.packSum[tile+i],
			&a.Q[t*a.Cols], &a.D[t*nb], &a.Sum[t*nb], nb)
	}
}

// rows is what a view of n tokens from from on reads; see Acts.Rows.
func (p *packed) rows(from, n, cols int) packed {
	nb := cols / BlockLen
	v := packed{bias: p.bias[from*nb:]}
	if n > 1 {
		v.packQ, v.packD, v.packSum = p.packQ[from*cols:], p.packD[from*nb:], p.packSum[from*nb:]
	}
	return v
}

//go:noescape
func packToken(q *int8, d *float32, bias *int32, srcQ *int8, srcD *float32, sum *int32, nb int)

func quantizeActs(q []int8, d []float32, sum []int32, x []float32) {
	if useAVX2 && len(d) > 0 {
		quantizeActsAVX2(&q[0], &d[0], &sum[0], &x[0], len(d))
		return
	}
	quantizeActsGeneric(q, d, sum, x)
}

//go:noescape
func quantizeActsAVX2(q *int8, d *float32, sum *int32, x *float32, nb int)
