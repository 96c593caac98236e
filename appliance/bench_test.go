// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"windhover/engine"
	"windhover/internal/testmodel"
	"windhover/kernels"
	"windhover/vqf"
)

func TestFillBlocks(t *testing.T) {
	for _, l := range kernelLayouts {
		const rows, cols = 64, 256
		data := make([]byte, rows*cols/kernels.BlockLen*l.BlockBytes())
		fillBlocks(data, l, cols, newNoise(7))
		again := make([]byte, len(data))
		fillBlocks(again, l, cols, newNoise(7))
		if !slices.Equal(data, again) {
			t.Errorf("%v: the same seed gave other bytes", l)
		}
		m, err := kernels.NewMatrix(data, rows, cols, l)
		if err != nil {
			t.Fatal(err)
		}
		row, sum := make([]float32, cols), 0.0
		for r := range rows {
			m.DequantizeRow(row, r)
			for _, v := range row {
				sum += float64(v) * float64(v)
			}
		}
		// A row of unit length keeps the size of what it is multiplied with.
		if length := math.Sqrt(sum / rows); !(length > 0.9 && length < 1.1) {
			t.Errorf("%v: rows of length %.3f, want about 1", l, length)
		}
	}
}

// TestBenchShapes holds the geometries to sizes that are known.
func TestBenchShapes(t *testing.T) {
	params := map[string]int64{ // of the matrices and the embedding, untied
		"smollm2-135m": 134_515_008 + 49152*576, "qwen3-0.6b": 596_049_920 + 151936*1024, "qwen3-1.7b": 1_720_574_976 + 151936*2048,
		"qwen3-vl-2b": 1_720_574_976 + 151936*2048, "qwen3-8b": 8_190_735_360,
	}
	for _, s := range benchShapes {
		a := s.arch
		a.MaxSeqLen, a.BosID, a.EosID = 8192, vqf.NoToken, vqf.NoToken
		spec := vqf.Spec{Arch: a, Mode: vqf.ModeQ4}
		spec.Q8, spec.Q4 = vqf.DefaultLayouts(a, spec.Mode, vqf.Layout8x8)
		plan, err := vqf.NewPlan(spec)
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		if a.MoE() {
			if got, want := plan.Size(), int64(17_665_601_544); got != want {
				t.Errorf("%s: a file of %d bytes, the published one has %d", s.name, got, want)
			}
			continue
		}
		var got int64
		for _, e := range plan.Tensors {
			got += int64(e.Rows) * int64(e.Cols)
		}
		if want := params[s.name]; got != want {
			t.Errorf("%s: %d parameters, want %d", s.name, got, want)
		}
	}
}

func TestMadeUpModelRuns(t *testing.T) {
	small := vqf.Arch{Dim: 64, NLayers: 2, NHeads: 2, NKVHeads: 1, HeadDim: 32, FFNDim: 128, VocabSize: 512, MaxSeqLen: 64,
		RopeTheta: 10000, NormEps: 1e-5, HasQNorm: 1, BosID: vqf.NoToken, EosID: vqf.NoToken}
	for _, layout := range []vqf.Layout{vqf.LayoutRow, vqf.Layout4x4, vqf.Layout8x8} {
		spec := vqf.Spec{Arch: small, Mode: vqf.ModeDual}
		spec.Q8, spec.Q4 = vqf.DefaultLayouts(small, spec.Mode, layout)
		plan, err := vqf.NewPlan(spec)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "made.vqf")
		if err := writeNoise(context.Background(), path, plan, spec); err != nil {
			t.Fatal(err)
		}
		report, err := vqf.Verify(context.Background(), path, vqf.VerifyOptions{}, nil)
		if err != nil || report.Err() != nil {
			t.Fatalf("%v: verify: %v, %v", layout, err, report.Err())
		}
		for _, family := range []string{"q8", "q4"} {
			m, err := engine.Load(path, engine.Options{Threads: 1, Family: family, NoTokenizer: true})
			if err != nil {
				t.Fatal(err)
			}
			_, margins, err := m.Greedy(context.Background(), []int32{1, 2, 3}, 8)
			if err != nil || slices.Contains(margins, 0) {
				t.Errorf("%v, %s: margins %v, %v", layout, family, margins, err)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestBenchOfAModel(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	var lines []string
	opt := BenchOptions{Model: testmodel.Write(t, testmodel.Default()), Threads: []int{1}, Prompt: 16, Tokens: 8, Context: []int{0, 32}, Quick: true}
	r, err := Bench(context.Background(), opt, func(s string) { lines = append(lines, s) })
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Read) != 1 || len(r.Kernels) != len(kernelLayouts) || len(r.Prefill) != 1 || len(r.Decode) != 2 || r.Decode[1].Context != 32 {
		t.Errorf("report %+v", r)
	}
	for _, d := range r.Decode {
		if d.TokS <= 0 || d.GBs <= 0 || d.Tokens != 8 {
			t.Errorf("decode %+v", d)
		}
	}
	if r.RSSMB <= 0 || r.AnonMB <= 0 || r.AnonMB > r.RSSMB || r.CPU == "" || r.Model.Families[0] != (BenchFamily{"q8", "q8 8x8", 203184}) {
		t.Errorf("memory %v and %v MB, CPU %q, %+v", r.RSSMB, r.AnonMB, r.CPU, r.Model.Families)
	}
	if text := strings.Join(lines, "\n"); strings.Count(text, "\ndecode") != 2 || strings.Count(text, "\nread") != 1 {
		t.Errorf("lines:\n%s", text)
	}
}

func TestBenchRefuses(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		opt  BenchOptions
		want string
	}{
		{"threads", context.Background(), BenchOptions{Threads: []int{0}}, "0 threads: this process may use 1 to"},
		{"cancelled", ended, BenchOptions{Threads: []int{1}}, "context canceled"},
	} {
		if _, err := Bench(c.ctx, c.opt, func(string) {}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
	b := &bench{opt: BenchOptions{Shape: "smollm2-135m", Mode: "q5"}}
	if _, err := b.makeModel(context.Background(), t.TempDir()); err == nil || !strings.Contains(err.Error(), `no mode "q5"`) {
		t.Errorf("mode q5: error %v", err)
	}
	b.opt.Mode = ""
	if _, err := b.makeModel(ended, t.TempDir()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while writing: error %v", err)
	}
}

func TestMixedLayoutsAgree(t *testing.T) {
	b := &bench{opt: BenchOptions{Quick: true, Threads: []int{1}}, report: &BenchReport{}, say: func(string, ...any) {}}
	if err := b.chooseThreads(); err != nil {
		t.Fatal(err)
	}
	const rows, cols = 64, 4096
	row := make([]byte, rows*cols/kernels.BlockLen*kernels.Q8BlockBytes)
	fillBlocks(row, kernels.Q8Row, cols, newNoise(1))
	s := MixedSpeed{Name: "small", Rows: rows, Cols: cols, Threads: 1}
	if err := b.mixedShape(context.Background(), &s, row); err != nil {
		t.Fatal(err)
	}
	if !s.Identical || s.MS8x8 <= 0 || s.Ratio <= 0 {
		t.Errorf("%+v", s)
	}
}
