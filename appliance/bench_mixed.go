// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
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

// mixedBytes is what the copies of a matrix take together: more than the caches,
// so that each product reads its weights from memory, as it does in a model.
const mixedBytes = 160 << 20

// mixed measures the shapes of an 8B model's layer.
func (b *bench) mixed(ctx context.Context) error {
	b.say("Q8 fused QKV / gate+up / down+res (dec)")
	b.say("%-10s %11s %7s  %8s %8s  %7s %7s  %6s %6s  %5s  %s", "matrix", "shape", "threads", "8x8 ms", "4x4 ms", "GFLOPS", "GFLOPS", "GB/s", "GB/s", "ratio", "outputs")
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
	}
	return nil
}

func (b *bench) mixedShape(ctx context.Context, s *MixedSpeed, row []byte) error {
	s8, out8, err := b.mixedLayout(ctx, s, row, kernels.Q8x8)
	if err != nil {
		return err
	}
	s4, out4, err := b.mixedLayout(ctx, s, row, kernels.Q8x4)
	if err != nil {
		return err
	}
	ops, bytes := 2*float64(s.Rows)*float64(s.Cols), float64(len(row))
	s.MS8x8, s.GFLOPS8x8, s.GBs8x8 = s8*1e3, round1(ops/s8/1e9), round2(bytes/s8/1e9)
	s.MS4x4, s.GFLOPS4x4, s.GBs4x4 = s4*1e3, round1(ops/s4/1e9), round2(bytes/s4/1e9)
	s.Ratio, s.Identical = round2(s4/s8), slices.Equal(out8, out4)
	return nil
}

// mixedLayout lays the weights out and returns the seconds of one product, taken
// over copies of the matrix in turn, and its result.
func (b *bench) mixedLayout(ctx context.Context, s *MixedSpeed, row []byte, layout kernels.Layout) (float64, []float32, error) {
	copies := max(mixedBytes/len(row), 1)
	mem, err := anonymous(copies * len(row))
	if err != nil {
		return 0, nil, err
	}
	defer mem.free()
	matrices := make([]kernels.Matrix, copies)
	for i := range matrices {
		data := mem.data[i*len(row):][:len(row)]
		if i == 0 {
			kernels.Repack(data, row, s.Rows, s.Cols, layout)
		} else {
			copy(data, mem.data)
		}
		if matrices[i], err = kernels.NewMatrix(data, s.Rows, s.Cols, layout); err != nil {
			return 0, nil, err
		}
	}
	task := newMatTask(&matrices[0], 1)
	var seconds []float64
	err = b.withPool(s.Threads, func(pool *kernels.Pool) error {
		turn := 0
		seconds, err = bestOf(ctx, b.duration(), func() error {
			turn++
			task.m = &matrices[turn%copies]
			return pool.Run(task)
		})
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	return seconds[0], task.dst, nil
}
