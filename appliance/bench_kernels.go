// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"encoding/binary"
	"math"
	"sync/atomic"

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
	OfPeak  float64 `json:"of_peak"`  // GOPS as a part of what calculating in registers, in turn, reaches
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
	b.say("")
	b.say("kernels                    1 token, weights from memory   %d tokens, weights in the caches", kernelTokens)
	b.say("         layout  threads   kernel       GB/s   of read   kernel       GOPS   of peak")
	for _, layout := range kernelLayouts {
		rows := len(mem.data) / (kernelCols / kernels.BlockLen * layout.BlockBytes()) &^ 63
		data := mem.data[:rows*kernelCols/kernels.BlockLen*layout.BlockBytes()]
		unit := data[:len(data)/rows*min(rows, kernelCached)]
		fillBlocks(unit, layout, kernelCols, newNoise(uint64(layout)))
		for at := len(unit); at < len(data); at += len(unit) {
			if err := ctx.Err(); err != nil {
				return err
			}
			copy(data[at:], unit)
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
		b.doing("%v, %s", m.Layout, threads(n))
		one, err := newStream(m, n, b.readOf(n).ahead, &b.stop)
		if err != nil {
			return err
		}
		rounds, err := inTurn(ctx, 2*b.duration(), []func() error{func() error { return one.multiply(pool) }, func() error { return one.read(pool) }})
		if err != nil {
			return err
		}
		gbs, ofRead := speedOf(rounds, one.bytes(), one.bytes())
		many, peak := newMatTask(&cached, kernelTokens, &b.stop), newPeakTask(kernels.PeakInt8, n)
		rounds, err = inTurn(ctx, b.duration(), []func() error{func() error { return pool.Run(many) }, func() error { return pool.Run(peak) }})
		if err != nil {
			return err
		}
		gops, ofPeak := speedOf(rounds, 2*float64(cached.Rows)*float64(cached.Cols)*kernelTokens, peak.total())
		s.GBs, s.OfRead, s.GOPS, s.OfPeak = round2(gbs), round2(ofRead), round1(gops), round2(ofPeak)
		return nil
	})
	if err != nil {
		return err
	}
	b.report.Kernels = append(b.report.Kernels, s)
	b.say("         %-7s %7d   %-7s %9.2f   %6.0f%%   %-7s %9.1f   %6.0f%%", s.Op, n, s.Impl, s.GBs, 100*s.OfRead, s.Gemm, s.GOPS, 100*s.OfPeak)
	return nil
}

// speedOf compares what takes the first time of every round, for some amount of
// work, with what takes the second, for another amount: a good speed of the first,
// in 10^9 a second, and the median of the rounds' ratios.
func speedOf(rounds [][]float64, amount, other float64) (speed, ratio float64) {
	speeds, ratios := make([]float64, len(rounds)), make([]float64, len(rounds))
	for i, round := range rounds {
		speeds[i] = amount / round[0] / 1e9
		ratios[i] = amount / round[0] / (other / round[1])
	}
	return goodSpeed(speeds), median(ratios)
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
	stop *atomic.Bool
}

func newMatTask(m *kernels.Matrix, tokens int, stop *atomic.Bool) *matTask {
	t := &matTask{m: m, acts: kernels.NewActs(tokens, m.Cols), dst: make([]float32, tokens*m.Rows), stop: stop}
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
	first, end := n*worker/workers*group, n*(worker+1)/workers*group
	step := max(taskPiece/(len(t.m.Data)/t.m.Rows)/group*group, group)
	for ; first < end && !t.stop.Load(); first += step {
		kernels.MatMul(t.dst, t.m.Rows, t.m, t.acts, first, min(first+step, end))
	}
}

// stream multiplies one token by a piece of a matrix in memory and then reads
// another piece, far from it. The pieces are short, so that the two meet the same
// neighbours on the machine, and most of them none.
type stream struct {
	pieces []kernels.Matrix
	turn   int
	mat    *matTask
	task   *readTask
}

// streamPiece is what a worker multiplies at once.
const streamPiece = 16 << 20

func newStream(m kernels.Matrix, workers, ahead int, stop *atomic.Bool) (*stream, error) {
	row := len(m.Data) / m.Rows
	rows := min(streamPiece*workers/row, m.Rows/4) &^ 7
	s := &stream{}
	for at := 0; at+rows <= m.Rows; at += rows {
		p, err := kernels.NewMatrix(m.Data[at*row:][:rows*row], rows, m.Cols, m.Layout)
		if err != nil {
			return nil, err
		}
		s.pieces = append(s.pieces, p)
	}
	s.mat = newMatTask(&s.pieces[0], 1, stop)
	s.task = newReadTask(nil, workers, stop)
	s.task.ahead = ahead
	return s, nil
}

// bytes of a piece.
func (s *stream) bytes() float64 { return float64(len(s.pieces[0].Data)) }

func (s *stream) multiply(pool *kernels.Pool) error {
	s.turn++
	s.mat.m = &s.pieces[s.turn%len(s.pieces)]
	return pool.Run(s.mat)
}

func (s *stream) read(pool *kernels.Pool) error {
	s.task.data = s.pieces[(s.turn+len(s.pieces)/2)%len(s.pieces)].Data
	return pool.Run(s.task)
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
