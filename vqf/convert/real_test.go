// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"windhover/vqf"
	"windhover/vqf/convert"
)

// smollm2 is the path of the real SmolLM2-135M-Instruct Q4_1 file.
func smollm2(t testing.TB) string {
	t.Helper()
	path := os.Getenv("WINDHOVER_SMOLLM2")
	if path == "" {
		t.Skip("WINDHOVER_SMOLLM2 does not name SmolLM2-135M-Instruct.Q4_1.gguf")
	}
	return path
}

func TestSmolLM2(t *testing.T) {
	src := smollm2(t)
	dst, r := run(t, src, convert.Options{})
	t.Logf("%.2f s", r.Seconds)
	equal(t, "mode", r.Mode, vqf.ModeQ8)
	equal(t, "parameters", r.Params, int64(134515008))
	equal(t, "tied", r.Tied, true)
	equal(t, "flags", r.Flags, vqf.FlagQ8x8|vqf.FlagQ4x4|vqf.FlagEmbF16)
	a := r.Arch
	equal(t, "arch", []uint32{a.Dim, a.NLayers, a.NHeads, a.NKVHeads, a.HeadDim, a.FFNDim, a.VocabSize, a.MaxSeqLen, a.BosID, a.EosID, a.HasQNorm, a.HasMRope},
		[]uint32{576, 30, 9, 3, 64, 1536, 49152, 8192, 1, 2, 0, 0})
	_, meta := embedded(t, dst)
	equal(t, "eos_token", meta["eos_token"], "<|im_end|>")
	if e := r.Errors["q8_lm"]; e != 0 {
		t.Errorf("q8_lm: error %g, want 0: the embedding table is Q8_0 already", e)
	}
	for _, name := range []string{"q8_q", "q8_down"} {
		if e := r.Errors[name]; e < 0.004 || e > 0.007 {
			t.Errorf("%s: relative error %g", name, e)
		}
	}
}

func BenchmarkSmolLM2(b *testing.B) {
	src := smollm2(b)
	for _, mode := range []string{"q8", "q4"} {
		b.Run(mode, func(b *testing.B) {
			dst := filepath.Join(b.TempDir(), "out.vqf")
			for b.Loop() {
				if _, err := convert.Run(context.Background(), src, dst, convert.Options{Mode: mode}, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(134515008*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mparam/s")
		})
	}
}

// BenchmarkConvert is a model of 14 million parameters, from each container.
func BenchmarkConvert(b *testing.B) {
	m := mini{dim: 512, layers: 4, heads: 8, kv: 2, hd: 64, ff: 1536, vocab: 4096, qnorm: true, tied: true}
	params := 0
	for _, w := range m.weights() {
		params += max(w.rows, 1) * w.cols
	}
	for _, c := range []struct{ name, src, mode string }{
		{"directory BF16 to q8", m.hfDir(b, "qwen3", "BF16", nil), "q8"},
		{"directory BF16 to q4", m.hfDir(b, "qwen3", "BF16", nil), "q4"},
		{"gguf Q8_0 to q8", m.ggufFile(b, "qwen3", "Q8_0", nil), "q8"},
		{"gguf F32 to dual", m.ggufFile(b, "qwen3", "F32", nil), "dual"},
	} {
		b.Run(c.name, func(b *testing.B) {
			dst := filepath.Join(b.TempDir(), "out.vqf")
			for b.Loop() {
				if _, err := convert.Run(context.Background(), c.src, dst, convert.Options{Mode: c.mode}, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(params)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mparam/s")
		})
	}
}
