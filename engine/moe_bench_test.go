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

	"windhover/vqf"
)

// shape30B is some layers of Qwen3-30B-A3B with a short vocabulary: as a mixture, or
// dense with the feed-forward width that a token of the mixture computes with.
func shape30B(layers uint32, mixture bool) vqf.Arch {
	a := vqf.Arch{
		Dim: 2048, NLayers: layers, NHeads: 32, NKVHeads: 4, HeadDim: 128, HeadDimFull: 128, FFNDim: 8 * 768, VocabSize: 4096,
		MaxSeqLen: 2048, RopeTheta: 1e6, NormEps: 1e-6, HasQNorm: 1, BosID: vqf.NoToken, EosID: vqf.NoToken,
	}
	if mixture {
		a.NExperts, a.TopK, a.MoEFFN, a.FFNDim = 128, 8, 768, 128*768
	}
	return a
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
	return f.Name()
}

// BenchmarkMixtureBesideDense decodes with some layers of a mixture and of a dense
// model that reads as much for a token, in turn: the median of the ratios of
// neighbours is what part of the dense model's bandwidth the mixture reaches, on a
// busy machine too.
func BenchmarkMixtureBesideDense(b *testing.B) {
	const layers = 4
	for _, mode := range []vqf.Mode{vqf.ModeQ4, vqf.ModeQ8} {
		paths := [2]string{rough(b, shape30B(layers, true), mode), rough(b, shape30B(layers, false), mode)}
		for threads := 1; threads <= cores(b); threads *= 2 {
			b.Run(fmt.Sprintf("%s/%d", mode, threads), func(b *testing.B) {
				var models [2]*Model
				for i, path := range paths {
					models[i] = load(b, path, Options{Threads: threads, Pin: true, NoTokenizer: true, Context: 256})
					if err := models[i].prefill(noise(128)); err != nil { // brings the weights in
						b.Fatal(err)
					}
				}
				var rates [2][]float64
				var ratios []float64
				token := int32(0)
				for b.Loop() {
					token = (token*31 + 7) % 4096
					for i, m := range models {
						m.seq.cut(16)
						start := time.Now()
						if err := m.step(token); err != nil {
							b.Fatal(err)
						}
						rates[i] = append(rates[i], float64(m.info.Need.Touched)/time.Since(start).Seconds()/1e9)
					}
					n := len(rates[0]) - 1
					ratios = append(ratios, rates[0][n]/rates[1][n])
				}
				middle := func(x []float64) float64 {
					slices.Sort(x)
					return x[len(x)/2]
				}
				b.ReportMetric(middle(rates[0]), "GB/s")
				b.ReportMetric(middle(rates[1]), "dense-GB/s")
				b.ReportMetric(100*middle(ratios), "%of-dense")
			})
		}
	}
}
