// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

import "testing"

// guardRepeats is how often what is in the cache is gone over in a piece, after once
// to get it there.
const guardRepeats = 8

// weights are the first of data as a matrix, as many rows as are whole by 32.
func (g *guard) weights(t *testing.T, data []byte, l Layout, cols int) Matrix {
	row := cols / BlockLen * l.BlockBytes()
	rows := len(data) / row &^ 31
	m, err := NewMatrix(data[:rows*row], rows, cols, l)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// multiply multiplies m by the tokens of a, some times.
func (g *guard) multiply(m Matrix, a *Acts, times int) {
	for range times {
		MatMul(g.dst, m.Rows, &m, a, 0, m.Rows)
	}
}

func guardActs(tokens, cols int) *Acts {
	a := NewActs(tokens, cols)
	a.Quantize(randFloats(newRand(1), tokens*cols, "normal"), tokens)
	return a
}

// product is the operations of products with weights in the cache, as a part of the
// most.
func (g *guard) product(t *testing.T, l Layout, cols, tokens int) float64 {
	m, a := g.weights(t, g.data[:guardCached], l, cols), guardActs(tokens, cols)
	times := max(1, guardRepeats/tokens)
	ops := 2 * float64(m.Rows) * float64(m.Cols) * float64(tokens*times)
	calculate, most := g.peak(PeakInt8, ops)
	took := turns(guardTurns, func(int) { g.multiply(m, a, times) }, calculate)
	return took[1] / most / (took[0] / ops)
}

// stream is the time of a product of one token that reads its weights from memory:
// how long it would take if it did but the slower of reading and calculating, as a
// part of how long it takes.
func (g *guard) stream(t *testing.T, l Layout, cols int) float64 {
	near, a := g.weights(t, g.data[:guardCached], l, cols), guardActs(1, cols)
	size := len(g.weights(t, g.far(0), l, cols).Data)
	took := turns(guardTurns, g.reading(g.ahead, size),
		func(i int) { g.multiply(g.weights(t, g.far(i), l, cols), a, 1) },
		func(int) { g.multiply(near, a, 1) }, func(int) { g.multiply(near, a, guardRepeats) })
	calculated := took[3] / guardRepeats * float64(size) / float64(len(near.Data))
	return max(took[0], calculated) / took[1]
}

// attend goes over the blocks of data, of two query heads of 128 with a key head
// between them. Of a block, values follow keys.
func (g *guard) attend(kv KV) (run func(data []byte), block int) {
	const hd, heads = 128, 2
	half := AttnBlock / KVGroup * kv.GroupBytes(hd)
	tile, acc, part := NewAttnTile(heads, hd), NewAttnPart(heads, hd), NewAttnPart(heads, hd)
	query := randFloats(newRand(1), heads*hd, "normal")
	for h := range heads {
		tile.SetQuery(h, query[h*hd:][:hd], 0.1)
	}
	return func(data []byte) {
		for b := 0; b+2*half <= len(data); b += 2 * half {
			tile.Block(part, kv, data[b:][:half], data[b+half:][:half], AttnBlock, heads)
			acc.Merge(part)
		}
	}, 2 * half
}

// attention is the operations of attention with keys and values in the cache, as a
// part of the most: a multiplication and an addition for each head, position and
// value of a key, and of a value.
func (g *guard) attention(kv KV) float64 {
	const ops = 2 * 2 * 2 * 128 * AttnBlock * guardRepeats
	run, block := g.attend(kv)
	calculate, most := g.peak(PeakF32, ops)
	took := turns(guardTurns, func(int) {
		for range guardRepeats {
			run(g.data[:block])
		}
	}, calculate)
	return took[1] / most / (took[0] / ops)
}

// attentionStream is of attention what stream is of products.
func (g *guard) attentionStream(kv KV) float64 {
	run, block := g.attend(kv)
	size := guardPiece / block * block
	took := turns(guardTurns, g.reading(g.ahead, size), func(i int) { run(g.far(i)) },
		func(int) { run(g.data[:block]) },
		func(int) {
			for range guardRepeats {
				run(g.data[:block])
			}
		})
	calculated := took[3] / guardRepeats * float64(size) / float64(block)
	return max(took[0], calculated) / took[1]
}

// waits multiplies numbers that wait for each other: some 12000 cycles on any CPU,
// 3 to 6 microseconds.
func waits(x uint64) uint64 {
	for range 4096 {
		x *= 0x9e3779b97f4a7c15
	}
	return x
}

type waiting struct {
	x [2 * 16]uint64 // [workers][16]: not on the same cache line
}

func (w *waiting) Run(worker, _ int) { w.x[16*worker] = waits(w.x[16*worker]) }

// forkJoin is how long a worker's share takes as a part of how long a task of two
// such shares takes: 1 if forking and joining cost nothing, a half if one worker did
// both. Where other processes have the CPUs, both workers run at the same time for
// moments only, which is why the fast pieces count.
func (g *guard) forkJoin(t *testing.T) float64 {
	allowed, err := AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	if len(allowed) < 2 {
		t.Skip("one CPU: nothing is forked")
	}
	p, err := NewPool(allowed[:2], true)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.Size() < 2 {
		t.Skip("a CPU quota below two: nothing is forked")
	}
	if err := p.Attach(); err != nil {
		t.Fatal(err)
	}
	defer p.Detach()
	task := &waiting{}
	task.x[0], task.x[16] = 1, 3
	x := uint64(5)
	took := turns(4000, func(int) { x = waits(x) }, func(int) {
		if err := p.Run(task); err != nil {
			t.Fatal(err)
		}
	})
	if x == 0 || task.x[0] == 0 || task.x[16] == 0 { // odd numbers times odd ones
		t.Error("a product came out as 0")
	}
	return took[0] / took[1]
}
