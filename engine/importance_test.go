// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"math"
	"testing"

	"windhover/internal/testmodel"
	"windhover/kernels"
)

// inputsOf gathers with a model of its own.
func inputsOf(t *testing.T, path string, opt Options, tokens []int32, budget int64) []Inputs {
	t.Helper()
	m := load(t, path, opt)
	before := logitsOf(t, m, tokens[:20], 0)
	last := 0
	list, err := m.Importance(context.Background(), tokens, budget, func(done, total int) {
		if done <= last || total != len(tokens) {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		last = done
	})
	if err != nil {
		t.Fatal(err)
	}
	if last != len(tokens) {
		t.Errorf("progress ends at %d of %d", last, len(tokens))
	}
	sameBits(t, "logits before and after", logitsOf(t, m, tokens[:20], 0), before)
	return list
}

// TestImportance: the squares are those of the inputs as the pass shows them,
// rows are counted, and threads change nothing.
func TestImportance(t *testing.T) {
	path, tokens := testmodel.Write(t, noisy()), noise(300)
	opt := Options{Chunk: 100, Threads: 1}
	list := inputsOf(t, path, opt, tokens, 1<<30)
	opt.Threads = 2
	other := inputsOf(t, path, opt, tokens, 1<<30)

	m := load(t, path, Options{Chunk: 100})
	c := &m.cfg
	if len(list) != inputKinds*c.Layers+1 {
		t.Fatalf("%d inputs of %d layers", len(list), c.Layers)
	}
	// By hand from the residual: inputs of q and of the head.
	windows := 0
	attn, head := make([][]float64, c.Layers), make([]float64, c.Dim)
	for l := range attn {
		attn[l] = make([]float64, c.Dim)
	}
	norm := make([]float32, c.Dim)
	pos := 0
	m.st.trace = func(layer int, x []float32) {
		if layer > c.Layers {
			return
		}
		for at := 0; at < len(x); at += c.Dim {
			weight, w, sum := 1.0, m.w.finalNorm, head
			if layer < c.Layers {
				w, sum = m.st.weights.attnNorm, attn[layer]
				if pos == 0 && at == 0 {
					weight = 257
				}
			}
			kernels.RMSNorm(norm, x[at:][:c.Dim], w, c.NormEps)
			for i, v := range norm {
				sum[i] += weight * float64(v) * float64(v)
			}
		}
	}
	for from := 0; from < len(tokens); from += m.st.size.ctx {
		windows++
		m.seq.cut(0)
		window := tokens[from:min(from+m.st.size.ctx, len(tokens))]
		for pos = 0; pos < len(window); pos += 100 {
			if err := m.feed(window[pos:min(pos+100, len(window))]); err != nil {
				t.Fatal(err)
			}
		}
	}
	near := func(what string, got []float32, want []float64) {
		for i, v := range got {
			if math.Abs(float64(v)-want[i]) > 1e-4*want[i] {
				t.Errorf("%s, column %d: %g, want %g", what, i, v, want[i])
				return
			}
		}
	}
	for i, in := range list {
		sameBits(t, "squares", other[i].Square, in.Square)
		rows, kind := int64(len(tokens)), i%inputKinds
		switch {
		case i == len(list)-1:
			near("head", in.Square, head)
		case kind == inputAttn:
			rows += int64(windows)
			near("attention", in.Square, attn[in.Layer])
		}
		cols := map[string]int{"q": c.Dim, "o": c.QO(), "gate": c.Dim, "down": c.FFN, "lm": c.Dim}[in.Roles[0]]
		if in.Rows != rows || in.Cols != cols || in.Width != cols {
			t.Errorf("%v of layer %d: %d rows of %d columns in bands of %d, want %d rows of %d columns", in.Roles, in.Layer, in.Rows, in.Cols, in.Width, rows, cols)
		}
		for j, v := range in.Square {
			if !(v > 0) {
				t.Errorf("%v of layer %d: column %d has squares of %g", in.Roles, in.Layer, j, v)
				break
			}
		}
	}
}

// TestImportanceBudget: bands become narrower, and then there are none.
func TestImportanceBudget(t *testing.T) {
	m := load(t, testmodel.Write(t, noisy()), Options{Chunk: 64})
	none := func(int, int) {}
	ctx := context.Background()
	for _, budget := range []int64{0, 100 << 10, 400 << 10, 1 << 30} {
		list, err := m.Importance(ctx, noise(64), budget, none)
		if err != nil {
			t.Fatal(err)
		}
		var size int64
		widest := 0
		for _, in := range list {
			size += kernels.MomentsBytes(in.Cols, in.Width)
			widest = max(widest, in.Width)
		}
		if widest > 0 && size > budget || widest == 0 && budget > 200<<10 {
			t.Errorf("budget %d: bands of %d take %d bytes", budget, widest, size)
		}
	}
	if _, err := m.Importance(ctx, noise(1), 0, none); !errors.Is(err, ErrRequest) {
		t.Errorf("one token: %v", err)
	}
	if _, err := m.Importance(ctx, []int32{1, -1}, 0, none); !errors.Is(err, ErrRequest) {
		t.Errorf("token -1: %v", err)
	}
	stopped, cancel := context.WithCancel(ctx)
	_, err := m.Importance(stopped, noise(2000), 0, func(int, int) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
