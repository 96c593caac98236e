// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"windhover/kernels"
)

// MixedSpeed is one matrix of an 8B model for one token, in both tiled layouts,
// made from the same weights.
type MixedSpeed struct {
	Name      string  `json:"name"`
	Rows      int     `json:"rows"`
	Cols      int     `json:"cols"`
	Threads   int     `json:"threads"`
	MS8x8     float64 `json:"ms_8x8"`
	MS4x4     float64 `json:"ms_4x4"`
	GFLOPS8x8 float64 `json:"gflops_8x8"`
	GFLOPS4x4 float64 `json:"gflops_4x4"`
	GBs8x8    float64 `json:"gb_s_8x8"`
	GBs4x4    float64 `json:"gb_s_4x4"`
	Ratio     float64 `json:"ratio"` // time in 4x4 by time in 8x8
	Identical bool    `json:"identical"`
}

var mixedShapes = []struct {
	name       string
	rows, cols int
}{{"fused QKV", 6144, 4096}, {"gate+up", 24576, 4096}, {"down+res", 4096, 12288}}

// boardSpeed is what the original engine's authors publish for one of these
// matrices on an RK3588: milliseconds and GFLOPS in both layouts.
type boardSpeed struct{ ms8x8, gflops8x8, ms4x4, gflops4x4 float64 }

var boardSpeeds = map[string]boardSpeed{
	"fused QKV": {1.641, 30.7, 1.592, 31.6},
	"gate+up":   {3.922, 51.3, 6.660, 30.2},
	"down+res":  {1.988, 50.6, 3.361, 30.0},
}

// mixedBytes is what the copies of a matrix in one layout take together: more than
// the caches, so that each product reads its weights from memory, as in a model.
const mixedBytes = 160 << 20

// mixed measures the shapes of an 8B model's layer.
func (b *bench) mixed(ctx context.Context) error {
	b.say("")
	b.say("Q8 fused QKV / gate+up / down+res (dec)")
	b.say("%-10s %11s %7s  %8s %8s  %7s %7s  %6s %6s  %5s  %s", "", "", "", "8x8", "4x4", "8x8", "4x4", "8x8", "4x4", "4x4/", "")
	b.say("%-10s %11s %7s  %8s %8s  %7s %7s  %6s %6s  %5s  %s", "matrix", "shape", "threads", "ms", "ms", "GFLOPS", "GFLOPS", "GB/s", "GB/s", "8x8", "outputs")
	for _, s := range mixedShapes {
		row := make([]byte, s.rows*s.cols/kernels.BlockLen*kernels.Q8BlockBytes)
		fillBlocks(row, kernels.Q8Row, s.cols, newNoise(1))
		for _, n := range b.opt.Threads {
			m := MixedSpeed{Name: s.name, Rows: s.rows, Cols: s.cols, Threads: n}
			if err := b.mixedShape(ctx, &m, row); err != nil {
				return fmt.Errorf("bench: %s: %w", s.name, err)
			}
			b.report.Mixed = append(b.report.Mixed, m)
			same := "identical"
			if !m.Identical {
				same = "DIFFERENT"
			}
			b.say("%-10s %5dx%-5d %7d  %8.3f %8.3f  %7.1f %7.1f  %6.2f %6.2f  %5.2f  %s", m.Name, m.Rows, m.Cols, n,
				m.MS8x8, m.MS4x4, m.GFLOPS8x8, m.GFLOPS4x4, m.GBs8x8, m.GBs4x4, m.Ratio, same)
		}
		if b.opt.Board || runtime.GOARCH == "arm64" {
			p := boardSpeeds[s.name]
			bytes := float64(len(row)) / 1e6
			b.say("%-10s %11s %7s  %8.3f %8.3f  %7.1f %7.1f  %6.2f %6.2f  %5.2f  %s", "", "on RK3588", "", p.ms8x8, p.ms4x4, p.gflops8x8, p.gflops4x4,
				bytes/p.ms8x8, bytes/p.ms4x4, p.ms4x4/p.ms8x8, "published")
		}
	}
	return nil
}

// mixedShape measures both layouts in turn, so that both meet the same neighbours, and
// takes the best time of each. The ratio is that of the times.
func (b *bench) mixedShape(ctx context.Context, s *MixedSpeed, row []byte) error {
	b.doing("%s, %s", s.Name, threads(s.Threads))
	var lay [2]*mixedWeights
	for i, layout := range []kernels.Layout{kernels.Q8x8, kernels.Q8x4} {
		w, err := b.layOut(ctx, s, row, layout)
		if err != nil {
			return err
		}
		defer w.mem.free()
		lay[i] = w
	}
	var rounds [][]float64
	err := b.withPool(s.Threads, func(pool *kernels.Pool) (err error) {
		rounds, err = inTurn(ctx, 2*b.duration(), []func() error{
			func() error { return lay[0].multiply(pool) },
			func() error { return lay[1].multiply(pool) },
		})
		return err
	})
	if err != nil {
		return err
	}
	s8, s4 := rounds[0][0], rounds[0][1]
	for _, round := range rounds {
		s8, s4 = min(s8, round[0]), min(s4, round[1])
	}
	ops, bytes := 2*float64(s.Rows)*float64(s.Cols), float64(len(row))
	s.MS8x8, s.GFLOPS8x8, s.GBs8x8 = s8*1e3, round1(ops/s8/1e9), round2(bytes/s8/1e9)
	s.MS4x4, s.GFLOPS4x4, s.GBs4x4 = s4*1e3, round1(ops/s4/1e9), round2(bytes/s4/1e9)
	s.Ratio, s.Identical = round2(s4/s8), slices.Equal(lay[0].task.dst, lay[1].task.dst)
	return nil
}

// mixedWeights are copies of a matrix in one layout, multiplied in turn.
type mixedWeights struct {
	mem      *memory
	matrices []kernels.Matrix
	task     *matTask
	turn     int
}

func (w *mixedWeights) multiply(pool *kernels.Pool) error {
	w.turn++
	w.task.m = &w.matrices[w.turn%len(w.matrices)]
	return pool.Run(w.task)
}

func (b *bench) layOut(ctx context.Context, s *MixedSpeed, row []byte, layout kernels.Layout) (*mixedWeights, error) {
	copies := max(mixedBytes/len(row), 1)
	mem, err := anonymous(copies * len(row))
	if err != nil {
		return nil, err
	}
	w := &mixedWeights{mem: mem, matrices: make([]kernels.Matrix, copies)}
	for i := range w.matrices {
		data := mem.data[i*len(row):][:len(row)]
		if i == 0 {
			kernels.Repack(data, row, s.Rows, s.Cols, layout)
		} else {
			copy(data, mem.data)
		}
		if err = ctx.Err(); err == nil {
			w.matrices[i], err = kernels.NewMatrix(data, s.Rows, s.Cols, layout)
		}
		if err != nil {
			mem.free()
			return nil, err
		}
	}
	w.task = newMatTask(&w.matrices[0], 1, &b.stop)
	return w, nil
}
