// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"encoding/binary"
	"math"
	"slices"

	"windhover/kernels"
)

// KernelSpeed is how fast a matrix product runs: for one token with the weights
// in memory, for many with the weights in the caches.
type KernelSpeed struct {
	Op      string  `json:"op"`       // layout, such as "q8 8x8"
	Impl    string  `json:"impl"`     // for one token, such as "vnni"
	Gemm    string  `json:"gemm"`     // for many
	Threads int     `json:"threads"`  //
	GBs     float64 `json:"gb_s"`     // of weights, one token
	GOPS    float64 `json:"gops"`     // many tokens
	OfRead  float64 `json:"of_read"`  // GBs as a part of what reading the same bytes, in turn, reaches
	Tokens  int     `json:"tokens"`   // that "many" are
	Rows    int     `json:"rows"`     // of the matrix in memory
	Cols    int     `json:"cols"`     // of both matrices
	Cached  int     `json:"gemm_row"` // rows of the matrix in the caches
}

const (
	kernelBytes  = 1 << 30 // of weights in memory
	kernelCols   = 4096
	kernelCached = 256 // rows of the matrix in the caches: 1 MiB of Q8
	kernelTokens = 64
)

var kernelLayouts = []kernels.Layout{kernels.Q8x8, kernels.Q8x4, kernels.Q8Row, kernels.Q4x4, kernels.Q4Row}

// kernels measures every layout with every number of threads.
func (b *bench) kernels(ctx context.Context) error {
	mem, err := anonymous(memorySize(b.bytes(kernelBytes)))
	if err != nil {
		return err
	}
	defer mem.free()
	b.say("kernels  %-7s %-8s %7s %9s %5s   %-8s %8s", "layout", "1 token", "threads", "GB/s", "read", "64 token", "GOPS")
	for _, layout := range kernelLayouts {
		rows := len(mem.data) / (kernelCols / kernels.BlockLen * layout.BlockBytes()) &^ 63
		data := mem.data[:rows*kernelCols/kernels.BlockLen*layout.BlockBytes()]
		unit := data[:len(data)/rows*min(rows, kernelCached)]
		fillBlocks(unit, layout, kernelCols, newNoise(uint64(layout)))
		for n := len(unit); n < len(data); n *= 2 {
			copy(data[n:], data[:n])
		}
		m, err := kernels.NewMatrix(data, rows, kernelCols, layout)
		if err != nil {
			return err
		}
		for _, n := range b.opt.Threads {
			if err := b.kernel(ctx, m, n); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) kernel(ctx context.Context, m kernels.Matrix, n int) error {
	s := KernelSpeed{Op: m.Layout.String(), Impl: implementation("matmul " + m.Layout.String()), Gemm: implementation("gemm " + m.Layout.String()),
		Threads: n, Tokens: kernelTokens, Rows: m.Rows, Cols: m.Cols, Cached: min(m.Rows, kernelCached)}
	cached := m
	cached.Rows = s.Cached
	cached.Data = m.Data[:len(m.Data)/m.Rows*s.Cached]
	err := b.withPool(n, func(pool *kernels.Pool) error {
		one, many := newMatTask(&m, 1), newMatTask(&cached, kernelTokens)
		runs := []func() error{func() error { return pool.Run(one) }}
		read := newReadTask(m.Data, n)
		for _, ahead := range readAheads {
			runs = append(runs, func() error { read.ahead = ahead; return pool.Run(read) })
		}
		rounds, err := inTurn(ctx, 2*b.duration(), runs)
		if err != nil {
			return err
		}
		s.GBs, s.OfRead = speedOf(rounds, len(m.Data))
		seconds, err := bestOf(ctx, b.duration(), func() error { return pool.Run(many) })
		if err == nil {
			s.GOPS = round1(2 * float64(cached.Rows) * float64(cached.Cols) * kernelTokens / seconds[0] / 1e9)
		}
		return err
	})
	if err != nil {
		return err
	}
	b.report.Kernels = append(b.report.Kernels, s)
	b.say("         %-7s %-8s %7d %9.2f %4.0f%%   %-8s %8.1f", s.Op, s.Impl, n, s.GBs, 100*s.OfRead, s.Gemm, s.GOPS)
	return nil
}

// speedOf is the best GB/s of what takes the first time of every round to read
// size bytes, and the median of the rounds' ratios of the fastest of the other
// times to it.
func speedOf(rounds [][]float64, size int) (gbs, ofRead float64) {
	best := rounds[0][0]
	ratios := make([]float64, len(rounds))
	for i, round := range rounds {
		best = min(best, round[0])
		ratios[i] = slices.Min(round[1:]) / round[0]
	}
	slices.Sort(ratios)
	return round2(float64(size) / best / 1e9), round2(ratios[len(ratios)/2])
}

// implementation is what the kernels use for an operation.
func implementation(op string) string {
	for _, s := range kernels.Selected() {
		if s.Op == op {
			return s.Impl
		}
	}
	return "generic"
}

// matTask multiplies a matrix by tokens, each worker whole groups of rows.
type matTask struct {
	m    *kernels.Matrix
	acts *kernels.Acts
	dst  []float32 // [tokens][rows]
}

func newMatTask(m *kernels.Matrix, tokens int) *matTask {
	t := &matTask{m: m, acts: kernels.NewActs(tokens, m.Cols), dst: make([]float32, tokens*m.Rows)}
	x := make([]float32, tokens*m.Cols)
	for i := range x {
		x[i] = float32(math.Sin(float64(i)))
	}
	t.acts.Quantize(x, tokens)
	return t
}

func (t *matTask) Run(worker, workers int) {
	const group = 8 // of the tallest layout
	n := t.m.Rows / group
	kernels.MatMul(t.dst, t.m.Rows, t.m, t.acts, n*worker/workers*group, n*(worker+1)/workers*group)
}

// noise is a small fast generator (splitmix64): weights of 17 GB are made with it.
type noise struct{ state uint64 }

func newNoise(seed uint64) *noise { return &noise{seed*0x9e3779b97f4a7c15 + 1} }

func (r *noise) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (r *noise) fill(p []byte) {
	for ; len(p) >= 8; p = p[8:] {
		binary.LittleEndian.PutUint64(p, r.next())
	}
	for i, x := 0, r.next(); i < len(p); i, x = i+1, x>>8 {
		p[i] = byte(x)
	}
}

// fillBlocks makes whole groups of blocks: random codes, and a scale with which a
// product with unit activations has unit size again, as in a trained model.
func fillBlocks(p []byte, l kernels.Layout, cols int, r *noise) {
	spread := 73.9 // of codes from -128 to 127
	if !l.Q8() {
		spread = 4.6 // of codes from -8 to 7
	}
	r.fill(p)
	scale := kernels.F32ToF16(float32(1 / (spread * math.Sqrt(float64(cols)))))
	group := l.GroupBytes()
	for ; len(p) >= group; p = p[group:] {
		for i := range l.Rows() {
			binary.LittleEndian.PutUint16(p[2*i:], scale)
		}
	}
}
