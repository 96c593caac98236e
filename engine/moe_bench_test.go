// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"windhover/kernels"
	"windhover/vqf"
)

// shape30B is some layers of Qwen3-30B-A3B with a short vocabulary.
func shape30B(layers uint32) vqf.Arch {
	return vqf.Arch{
		Dim: 2048, NLayers: layers, NHeads: 32, NKVHeads: 4, HeadDim: 128, HeadDimFull: 128, FFNDim: 128 * 768, VocabSize: 4096,
		MaxSeqLen: 2048, RopeTheta: 1e6, NormEps: 1e-6, HasQNorm: 1, BosID: vqf.NoToken, EosID: vqf.NoToken,
		NExperts: 128, TopK: 8, MoEFFN: 768,
	}
}

// rough makes a file of the shape with any weights: small scales, so that numbers
// stay numbers, and routers that choose other experts for each token.
func rough(b *testing.B, a vqf.Arch, mode vqf.Mode) string {
	b.Helper()
	spec := vqf.Spec{Arch: a, Mode: mode}
	spec.Q8, spec.Q4 = vqf.DefaultLayouts(a, mode, vqf.Layout8x8)
	plan, err := vqf.NewPlan(spec)
	if err != nil {
		b.Fatal(err)
	}
	f, err := os.Create(filepath.Join(b.TempDir(), "rough.vqf"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	write := func(at uint64, p []byte) {
		if _, err := f.WriteAt(p, int64(at)); err != nil && err != io.EOF {
			b.Fatal(err)
		}
	}
	write(0, plan.Prefix())
	r := rand.NewChaCha8([32]byte{1})
	for _, t := range plan.Tensors {
		piece := make([]byte, 72*272*64)
		_, _ = r.Read(piece) // never fails
		switch t.Type {
		case vqf.F32:
			for i := 3; i < len(piece); i += 4 {
				piece[i], piece[i-1] = piece[i]&0x80|0x3d, piece[i-1]&0x7f // 1/32 to 1/16
			}
			if t.Name != "moe_router" {
				for i := 3; i < len(piece); i += 4 {
					piece[i] &= 0x7f
				}
			}
		case vqf.F16:
			for i := 1; i < len(piece); i += 2 {
				piece[i] = piece[i]&0x83 | 0x38
			}
		default:
			group, rows := 272, 8
			if t.Type == vqf.Q4_0 {
				group, rows = 72, 4
			}
			for g := 0; g < len(piece); g += group {
				for i := range rows {
					piece[g+2*i], piece[g+2*i+1] = 0, 0x10 // 2^-11
				}
			}
		}
		for at := uint64(0); at < t.Bytes; at += uint64(len(piece)) {
			write(t.Offset+at, piece[:min(uint64(len(piece)), t.Bytes-at)])
			if t.Name == "moe_router" {
				_, _ = r.Read(piece)
				for i := 3; i < len(piece); i += 4 {
					piece[i], piece[i-1] = piece[i]&0x80|0x3d, piece[i-1]&0x7f
				}
			}
		}
	}
	if err := f.Truncate(plan.Size()); err != nil {
		b.Fatal(err)
	}
	// What is read anew comes in huge pages where the file system has them; what is
	// written does not.
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		b.Fatal(err)
	}
	return f.Name()
}

// denseRows multiplies a run of rows by one token, each worker a share.
type denseRows struct {
	m          *kernels.Matrix
	acts       *kernels.Acts
	dst        []float32
	row0, rows int
}

func (d *denseRows) Run(worker, workers int) {
	const group = 8
	from, to := d.rows/group*worker/workers*group, d.rows/group*(worker+1)/workers*group
	kernels.MatMul(d.dst, len(d.dst), d.m, d.acts, d.row0+from, d.row0+to)
}

// BenchmarkMixtureBesideDense decodes with some layers of a mixture, in turn with the
// dense kernel on long runs of rows of the same file, as many bytes as a token takes:
// the median of the ratios of neighbours is what part of the dense kernel's bandwidth
// decoding reaches, with all that is beside the products, on a busy machine too.
func BenchmarkMixtureBesideDense(b *testing.B) {
	const layers = 4
	for _, mode := range []vqf.Mode{vqf.ModeQ4, vqf.ModeQ8} {
		path := rough(b, shape30B(layers), mode)
		for _, packed := range []bool{true, false} {
			for threads := 1; threads <= cores(b); threads *= 2 {
				b.Run(fmt.Sprintf("%s/packed=%v/%d", mode, packed, threads), func(b *testing.B) {
					m := load(b, path, Options{Threads: threads, Pin: true, NoTokenizer: true, Context: 512})
					if !packed {
						windows(b, m)
					}
					for range 2 { // brings the weights in
						if err := m.prefill(noise(256)); err != nil {
							b.Fatal(err)
						}
						m.seq.cut(0)
					}
					benchBesideDense(b, m)
				})
			}
		}
	}
}

func benchBesideDense(b *testing.B, m *Model) {
	r := rand.New(rand.NewPCG(1, 2))
	layers := m.w.res.(*mapped).layers
	stack := &layers[0].gate
	rows := int(m.info.Need.Touched) / (len(stack.Data) / stack.Rows) / len(layers) &^ 7
	dense := &denseRows{acts: kernels.NewActs(1, stack.Cols), dst: make([]float32, stack.Rows), rows: rows}
	dense.acts.Quantize(m.st.norm[:stack.Cols], 1)
	if err := m.prefill(noise(16)); err != nil {
		b.Fatal(err)
	}
	var tokens, runs, ratios []float64
	for b.Loop() {
		m.seq.cut(16)
		start := time.Now()
		if err := m.step(int32(r.IntN(4096))); err != nil {
			b.Fatal(err)
		}
		tokens = append(tokens, float64(m.info.Need.Touched)/time.Since(start).Seconds()/1e9)
		start = time.Now()
		for l := range layers {
			dense.m, dense.row0 = &layers[l].gate, r.IntN((stack.Rows-rows)/8)*8
			if err := m.pool.Run(dense); err != nil {
				b.Fatal(err)
			}
		}
		n := len(stack.Data) / stack.Rows * rows * len(layers)
		runs = append(runs, float64(n)/time.Since(start).Seconds()/1e9)
		ratios = append(ratios, tokens[len(tokens)-1]/runs[len(runs)-1])
	}
	middle := func(x []float64) float64 {
		slices.Sort(x)
		return x[len(x)/2]
	}
	b.ReportMetric(middle(tokens), "GB/s")
	b.ReportMetric(middle(runs), "dense-GB/s")
	b.ReportMetric(100*middle(ratios), "%of-dense")
}
