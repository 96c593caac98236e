// SPDX-License-Identifier: Apache-2.0

package vision

import "windhover/kernels"

// The tower, for the patches of a frame, in the order it is computed:
//
//	x = Wpatch pixels + bias + position(row, col)
//	for each block:
//	    h = LayerNorm1(x)
//	    q, k, v = Wqkv h + bias
//	    q, k = turn(q, row, col), turn(k, row, col)
//	    a = for each head: softmax(q·K / sqrt(headDim)) V over all patches of the frame
//	    x += Wproj a + bias
//	    h = LayerNorm2(x)
//	    x += Wfc2 geluTanh(Wfc1 h + bias) + bias
//	    a DeepStack merger that belongs here takes x
//	the main merger takes x
//
// The four matrices of a block are int8, and so is what they multiply. The rest
// is float32, keys and values binary16. What goes by patch is cut into chunks,
// so that a large picture takes no more memory than its x, q, k and v.
const (
	chunkPatches = 512
	unitRows     = 64 // of a matrix
	unitPatches  = kernels.KVGroup
	attnRows     = 96 // queries of a unit
)

// pass is the memory of a picture's way through the tower.
type pass struct {
	*Tower
	p   *Patches
	run *runner
	e   *Embedding

	n     int // patches of a frame
	list  []stage
	turns *turns
	grid  *grid
	ones  []float32 // [dim or merged, the larger]

	x            []float32 // [n][dim]
	q            []float32 // [n][dim]: queries, then what attention gives
	groups       int       // of keys of a head
	keys, values []byte    // [heads][groups]

	// For a chunk of patches.
	from, count   int
	norm          []float32 // [chunk][dim]
	mid           []float32 // [chunk][3*dim or ffnPad, the larger]
	inDim, inWide *kernels.Acts

	merge   *mergePass
	workers []worker
}

// worker is scratch.
type worker struct {
	cos, sin  []float32 // [headDim/2]
	gate, up  []float32 // [ffn]
	pixels    []float32 // [patch values]
	columns   []float32 // [patch values][64]
	sums      []float32 // [dim][64]
	place     []float32 // [merged]
	tile      *kernels.AttnTile
	acc, part kernels.AttnPart
}

func newPass(t *Tower, p *Patches, r *runner, e *Embedding) *pass {
	s, n := t.s, p.Grid.H*p.Grid.W
	c := &pass{Tower: t, p: p, run: r, e: e, n: n, turns: newTurns(p.Grid, s.headDim), grid: newGrid(t.w, s, p.Grid)}
	c.ones = make([]float32, max(s.dim, t.merged()))
	for i := range c.ones {
		c.ones[i] = 1
	}
	c.x, c.q = make([]float32, n*s.dim), make([]float32, n*s.dim)
	c.groups = (n + kernels.KVGroup - 1) / kernels.KVGroup
	size := s.heads * c.groups * kernels.KVF16.GroupBytes(s.headDim)
	c.keys, c.values = make([]byte, size), make([]byte, size)

	chunk := min(n, t.chunk)
	c.norm = make([]float32, chunk*s.dim)
	c.mid = make([]float32, chunk*max(3*s.dim, s.ffnPad))
	c.inDim, c.inWide = kernels.NewActs(chunk, s.dim), kernels.NewActs(chunk, s.ffnPad)
	c.merge = newMergePass(t, n)
	for range r.pool.Size() {
		c.workers = append(c.workers, worker{
			cos: make([]float32, s.headDim/2), sin: make([]float32, s.headDim/2),
			gate: make([]float32, s.ffn), up: make([]float32, s.ffn),
			pixels: make([]float32, p.Len()), columns: make([]float32, p.Len()*kernels.FloatColumns),
			sums: make([]float32, s.dim*kernels.FloatColumns), place: make([]float32, t.merged()),
			tile: kernels.NewAttnTile(attnRows, s.headDim),
			acc:  kernels.NewAttnPart(attnRows, s.headDim), part: kernels.NewAttnPart(attnRows, s.headDim),
		})
	}
	return c
}

// part lists the work of a part of a frame: what its patches begin with, then the
// blocks, each with the DeepStack merger that takes its output, then the places.
func (c *pass) part(frame, part int) []stage {
	c.list = c.list[:0]
	i := part - 1
	switch {
	case part == 0:
		c.list = append(c.list, stage{
			units: (c.n + kernels.FloatColumns - 1) / kernels.FloatColumns,
			cost:  kernels.FloatColumns * int64(c.p.Len()) * int64(c.s.dim),
			do:    func(worker, u int) { c.embed(worker, frame, u) },
		})
	case i == len(c.w.blocks):
		c.mergeInto(&c.w.merger, c.outputs(c.e, -1, frame))
	default:
		b := &c.w.blocks[i]
		c.queries(b)
		c.attend()
		c.rest(b)
		for level := range c.w.deepstack {
			if m := &c.w.deepstack[level]; m.after == i {
				c.mergeInto(m, c.outputs(c.e, level, frame))
			}
		}
	}
	return c.list
}

// embed computes 64 patches' place in x.
func (c *pass) embed(worker, frame, u int) {
	w, dim := &c.workers[worker], c.s.dim
	from := u * kernels.FloatColumns
	n := min(c.n-from, kernels.FloatColumns)
	for i := range n {
		c.p.Patch(w.pixels, frame, from+i)
		for k, v := range w.pixels {
			w.columns[k*kernels.FloatColumns+i] = v
		}
	}
	multiply(w.sums, c.w.patch, w.columns, dim, c.p.Len())
	for i := range n {
		x := c.x[(from+i)*dim:][:dim]
		for r, b := range c.w.patchBias {
			x[r] = w.sums[r*kernels.FloatColumns+i] + b
		}
		row, col := c.p.Grid.at(from+i, c.cfg.Merge)
		c.grid.add(x, row, col)
	}
}

// chunks lists the stages for each chunk of patches, in order; each is made for the
// number of patches of the chunk.
func (c *pass) chunks(stages ...func(count int) stage) {
	for from := 0; from < c.n; from += c.chunk {
		count := min(c.n-from, c.chunk)
		for i, of := range stages {
			s := of(count)
			if i == 0 {
				s.begin = func() {
					c.from, c.count = from, count
					c.inDim.SetTokens(count)
					c.inWide.SetTokens(count)
				}
			}
			c.list = append(c.list, s)
		}
	}
}

// patches calls do for each patch of the chunk, units of them by a worker. cost is
// that of a patch.
func (c *pass) patches(cost int, do func(w *worker, t int)) func(count int) stage {
	unit := func(worker, u int) {
		for t := u * unitPatches; t < min((u+1)*unitPatches, c.count); t++ {
			do(&c.workers[worker], t)
		}
	}
	return func(count int) stage {
		return stage{units: (count + unitPatches - 1) / unitPatches, cost: int64(unitPatches * cost), do: unit}
	}
}

// product leaves m times the chunk in dst [count][stride].
func (c *pass) product(dst []float32, stride int, m *kernels.Matrix, in *kernels.Acts) func(count int) stage {
	unit := func(_, u int) {
		kernels.MatMul(dst, stride, m, in, u*unitRows, min((u+1)*unitRows, m.Rows))
	}
	return func(count int) stage {
		return stage{units: (m.Rows + unitRows - 1) / unitRows, cost: productCost(m, count), do: unit}
	}
}

// at is the chunk's patch t in x or q.
func (c *pass) at(x []float32, t int) []float32 { return x[(c.from+t)*c.s.dim:][:c.s.dim] }

// queries computes queries, keys and values of all patches.
func (c *pass) queries(b *block) {
	dim := c.s.dim
	c.chunks(
		c.patches(normCost*dim, func(_ *worker, t int) {
			layerNorm(c.norm[t*dim:][:dim], c.at(c.x, t), b.norm1, b.bias1, c.ones, c.s.eps)
			c.inDim.QuantizeRange(c.norm, t, t+1)
		}),
		c.product(c.mid, 3*dim, &b.qkv, c.inDim),
		c.patches(normCost*dim, func(w *worker, t int) {
			row := c.mid[t*3*dim:][:3*dim]
			kernels.Add(row, b.qkvBias)
			c.turn(w, t, row)
		}),
	)
}

// turn turns the heads of a patch by its place, and stores them.
func (c *pass) turn(w *worker, t int, qkv []float32) {
	dim, hd := c.s.dim, c.s.headDim
	row, col := c.p.Grid.at(c.from+t, c.cfg.Merge)
	c.turns.at(w.cos, w.sin, row, col)
	q, k, v := qkv[:dim], qkv[dim:2*dim], qkv[2*dim:]
	pos := c.from + t
	for h := range c.s.heads {
		kernels.RopeHalf(q[h*hd:][:hd], w.cos, w.sin)
		kernels.RopeHalf(k[h*hd:][:hd], w.cos, w.sin)
		at, size := c.group(h, pos)
		kernels.KVF16.StoreKey(c.keys[at:][:size], pos%kernels.KVGroup, k[h*hd:][:hd])
		kernels.KVF16.StoreValue(c.values[at:][:size], pos%kernels.KVGroup, v[h*hd:][:hd])
	}
	copy(c.at(c.q, t), q)
}

// group is where the group of a position begins in a head's keys and values.
func (c *pass) group(head, pos int) (at, size int) {
	size = kernels.KVF16.GroupBytes(c.s.headDim)
	return (head*c.groups + pos/kernels.KVGroup) * size, size
}

// attend replaces the queries by what they find. A unit is a run of patches of
// a head, units of a head follow each other.
func (c *pass) attend() {
	runs := (c.n + attnRows - 1) / attnRows
	unit := func(worker, u int) {
		head, from := u/runs, u%runs*attnRows
		w, hd := &c.workers[worker], c.s.headDim
		n := min(c.n-from, attnRows)
		query := func(i int) []float32 { return c.q[(from+i)*c.s.dim+head*hd:][:hd] }
		for i := range n {
			w.tile.SetQuery(i, query(i), attnScale(hd))
		}
		acc, part := w.acc.Rows(0, n), w.part.Rows(0, n)
		for pos := 0; pos < c.n; pos += kernels.AttnBlock {
			if c.run.stop.Load() {
				return
			}
			at, _ := c.group(head, pos)
			end, _ := c.group(head+1, 0)
			dst := acc
			if pos > 0 {
				dst = part
			}
			// Every row sees all patches: a step of all rows is none.
			w.tile.Block(dst, kernels.KVF16, c.keys[at:end], c.values[at:end], min(c.n-pos, kernels.AttnBlock), n)
			if pos > 0 {
				acc.Merge(part)
			}
		}
		for i := range n {
			acc.Result(i, query(i))
		}
	}
	c.list = append(c.list, stage{units: c.s.heads * runs, cost: attendCost(attnRows, c.n, c.s.headDim), do: unit})
}

// rest is a block behind attention.
func (c *pass) rest(b *block) {
	dim, ffn, pad := c.s.dim, c.s.ffn, c.s.ffnPad
	add := func(t int, bias []float32) []float32 {
		x, y := c.at(c.x, t), c.norm[t*dim:][:dim]
		kernels.Add(y, bias)
		kernels.Add(x, y)
		return x
	}
	c.chunks(
		c.patches(normCost*dim, func(_ *worker, t int) { c.inDim.QuantizeRange(c.q[c.from*dim:], t, t+1) }),
		c.product(c.norm, dim, &b.proj, c.inDim),
		c.patches(normCost*dim, func(_ *worker, t int) {
			layerNorm(c.norm[t*dim:][:dim], add(t, b.projBias), b.norm2, b.bias2, c.ones, c.s.eps)
			c.inDim.QuantizeRange(c.norm, t, t+1)
		}),
		c.product(c.mid, pad, &b.fc1, c.inDim),
		c.patches(geluCost*ffn, func(w *worker, t int) {
			row := c.mid[t*pad:][:pad]
			kernels.Add(row[:ffn], b.fc1Bias)
			geluTanh(row[:ffn], w.gate, w.up)
			clear(row[ffn:])
			c.inWide.QuantizeRange(c.mid, t, t+1)
		}),
		c.product(c.norm, dim, &b.fc2, c.inWide),
		c.patches(normCost*dim, func(_ *worker, t int) { add(t, b.fc2Bias) }),
	)
}
