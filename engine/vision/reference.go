// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"math"

	"windhover/kernels"
)

// reference is the tower as pass.go describes it, in plain float32 Go without
// kernels: weights dequantised, activations, keys and values not quantised.
type reference struct {
	*Tower
	p *Patches
	e *Embedding

	n     int
	list  []stage
	grid  *grid
	turns *turns
	x, h  []float32   // [n][dim]
	qkv   []float32   // [n][3*dim]
	wide  []float32   // [n][ffnPad]
	row   [][]float32 // [workers][the widest row]
	score [][]float32 // [workers][n]
}

func newReference(t *Tower, p *Patches, workers int, e *Embedding) *reference {
	s, n := t.s, p.Grid.H*p.Grid.W
	c := &reference{Tower: t, p: p, e: e, n: n, grid: newGrid(t.w, s, p.Grid), turns: newTurns(p.Grid, s.headDim)}
	c.x, c.h, c.qkv = make([]float32, n*s.dim), make([]float32, n*s.dim), make([]float32, 3*n*s.dim)
	c.wide = make([]float32, n*s.ffnPad)
	for range workers {
		c.row = append(c.row, make([]float32, max(s.dim, s.ffnPad, p.Len())))
		c.score = append(c.score, make([]float32, n))
	}
	return c
}

// add lists a stage; cost is the multiply-adds of a unit.
func (c *reference) add(units int, cost int64, do func(worker, unit int)) {
	c.list = append(c.list, stage{units: units, cost: referenceCost * cost, do: do})
}

// part lists the work of the same parts as pass has.
func (c *reference) part(frame, part int) []stage {
	c.list = c.list[:0]
	i := part - 1
	switch {
	case part == 0:
		c.add(c.n, int64(c.p.Len())*int64(c.s.dim), func(worker, t int) { c.embed(worker, frame, t) })
	case i == len(c.w.blocks):
		c.mergeInto(&c.w.merger, c.outputs(c.e, -1, frame))
	default:
		c.block(&c.w.blocks[i])
		for level := range c.w.deepstack {
			if m := &c.w.deepstack[level]; m.after == i {
				c.mergeInto(m, c.outputs(c.e, level, frame))
			}
		}
	}
	return c.list
}

func (c *reference) embed(worker, frame, t int) {
	dim := c.s.dim
	pixels, x := c.row[worker][:c.p.Len()], c.x[t*dim:][:dim]
	c.p.Patch(pixels, frame, t)
	for r := range x {
		x[r] = refDot(c.w.patch[r*len(pixels):], pixels) + c.w.patchBias[r]
	}
	row, col := c.p.Grid.at(t, c.cfg.Merge)
	c.grid.add(x, row, col)
}

func (c *reference) block(b *block) {
	dim, ffn, pad := c.s.dim, c.s.ffn, c.s.ffnPad
	norm := func(w, bias []float32) {
		c.add(c.n, int64(dim), func(_, t int) { refNorm(c.h[t*dim:][:dim], c.x[t*dim:][:dim], w, bias, c.s.eps) })
	}
	norm(b.norm1, b.bias1)
	c.product(c.qkv, 3*dim, &b.qkv, c.h, b.qkvBias, nil)
	c.add(c.n, int64(2*dim), func(_, t int) { c.turn(t) })
	c.add(c.n, attendCost(1, c.n, dim), c.attend)
	c.product(c.x, dim, &b.proj, c.h, b.projBias, c.x)
	norm(b.norm2, b.bias2)
	c.product(c.wide, pad, &b.fc1, c.h, b.fc1Bias, nil)
	c.add(c.n, int64(geluCost*ffn), func(_, t int) {
		row := c.wide[t*pad:][:pad]
		for i, v := range row[:ffn] {
			row[i] = refGeluTanh(v)
		}
		clear(row[ffn:])
	})
	c.product(c.x, dim, &b.fc2, c.wide, b.fc2Bias, c.x)
}

// product lists what leaves m times x [n][m.Cols] plus bias, and plus sum if there is
// one, in dst [n][stride].
func (c *reference) product(dst []float32, stride int, m *kernels.Matrix, x, bias, sum []float32) {
	c.add(m.Rows, int64(m.Cols)*int64(c.n), func(worker, r int) {
		row := c.row[worker][:m.Cols]
		m.DequantizeRow(row, r)
		for t := range c.n {
			y := refDot(row, x[t*m.Cols:]) + bias[r]
			if sum != nil {
				y += sum[t*stride+r]
			}
			dst[t*stride+r] = y
		}
	})
}

// turn turns queries and keys of a patch.
func (c *reference) turn(t int) {
	dim, hd := c.s.dim, c.s.headDim
	cos, sin := make([]float32, hd/2), make([]float32, hd/2)
	row, col := c.p.Grid.at(t, c.cfg.Merge)
	c.turns.at(cos, sin, row, col)
	for at := 0; at < 2*dim; at += hd {
		x := c.qkv[t*3*dim+at:][:hd]
		for i := range cos {
			a, b := x[i], x[i+hd/2]
			x[i] = float32(a*cos[i]) - float32(b*sin[i])
			x[i+hd/2] = float32(b*cos[i]) + float32(a*sin[i])
		}
	}
}

// attend leaves the attention of a patch in h.
func (c *reference) attend(worker, t int) {
	dim, hd := c.s.dim, c.s.headDim
	score, scale := c.score[worker], attnScale(hd)
	for h := 0; h < dim; h += hd {
		q, top := c.qkv[t*3*dim+h:][:hd], float32(math.Inf(-1))
		for i := range score {
			score[i] = refDot(q, c.qkv[i*3*dim+dim+h:]) * scale
			top = max(top, score[i])
		}
		var sum float32
		for i, v := range score {
			score[i] = float32(math.Exp(float64(v - top)))
			sum += score[i]
		}
		out := c.h[t*dim+h:][:hd]
		clear(out)
		for i, v := range score {
			p := v / sum
			for j, x := range c.qkv[i*3*dim+2*dim+h:][:hd] {
				out[j] += float32(p * x)
			}
		}
	}
}

func (c *reference) mergeInto(m *merger, dst []float32) {
	wide, out := c.merged(), c.s.out
	c.add(len(dst)/out, int64(wide)*int64(wide+out), func(_, t int) {
		h, mid := make([]float32, wide), make([]float32, wide)
		for at := 0; at < wide; at += len(m.norm) {
			refNorm(h[at:][:len(m.norm)], c.x[t*wide+at:][:len(m.norm)], m.norm, m.bias, c.s.eps)
		}
		for r := range mid {
			v := float64(refDot(h, m.f1[r*wide:]) + m.f1Bias[r])
			mid[r] = float32(v / 2 * (1 + math.Erf(v/math.Sqrt2)))
		}
		for r := range out {
			dst[t*out+r] = refDot(mid, m.f2[r*wide:]) + m.f2Bias[r]
		}
	})
}

// refDot is the sum over the elements of the one that ends first.
func refDot(a, b []float32) float32 {
	var sum float32
	n := min(len(a), len(b))
	b = b[:n]
	for i, v := range a[:n] {
		sum += float32(v * b[i])
	}
	return sum
}

func refNorm(dst, x, w, b []float32, eps float32) {
	var mean, variance float64
	for _, v := range x {
		mean += float64(v)
	}
	mean /= float64(len(x))
	for _, v := range x {
		variance += float64((float64(v) - mean) * (float64(v) - mean))
	}
	r := 1 / math.Sqrt(variance/float64(len(x))+float64(eps))
	for i, v := range x {
		dst[i] = float32(float32((float64(v)-mean)*r)*w[i]) + b[i]
	}
}

func refGeluTanh(x float32) float32 {
	v := float64(x)
	return float32(v / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v))))
}
