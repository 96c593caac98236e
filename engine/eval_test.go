// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"math"
	"testing"

	"windhover/internal/testmodel"
)

func TestNLLIsThatOfTheLogits(t *testing.T) {
	m := load(t, testmodel.Write(t, noisy()), Options{Chunk: 16})
	tokens := noise(70)
	const window = 30
	want, n := 0.0, 0
	for from := 0; from < len(tokens); from += window {
		part := tokens[from:min(from+window, len(tokens))]
		logits := logitsOf(t, m, part, 0)
		for i := range part[1:] {
			row := logits[i*m.cfg.Vocab:][:m.cfg.Vocab]
			sum := 0.0
			for _, l := range row {
				sum += math.Exp(float64(l))
			}
			want += math.Log(sum) - float64(row[part[i+1]])
			n++
		}
	}
	var seen []int
	mean, scored, err := m.NLL(context.Background(), tokens, window, func(pos int, nll float64) {
		seen = append(seen, pos)
		if nll < 0 {
			t.Errorf("position %d: %v", pos, nll)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if scored != n || n != 67 || math.Abs(mean-want/float64(n)) > 1e-9 {
		t.Errorf("mean %v of %d, want %v of %d", mean, scored, want/float64(n), n)
	}
	if len(seen) != n || seen[0] != 1 || seen[28] != 29 || seen[29] != 31 {
		t.Errorf("positions %v, want all but the first of each window", seen)
	}
}

func TestEvalRefuses(t *testing.T) {
	m := load(t, testmodel.Write(t, noisy()), Options{Chunk: 16})
	ctx := context.Background()
	if _, _, err := m.NLL(ctx, noise(10), 1, nil); !errors.Is(err, ErrRequest) {
		t.Errorf("window 1: %v", err)
	}
	if _, _, err := m.NLL(ctx, noise(1), 8, nil); !errors.Is(err, ErrRequest) {
		t.Errorf("one token: %v", err)
	}
	if _, _, err := m.NLL(ctx, noise(400), 300, nil); !errors.Is(err, ErrContextOverflow) {
		t.Errorf("window over the context: %v", err)
	}
	if _, _, err := m.Greedy(ctx, noise(250), 7); !errors.Is(err, ErrContextOverflow) {
		t.Errorf("greedy over the context: %v", err)
	}
	if _, _, err := m.Greedy(ctx, noise(3), 0); !errors.Is(err, ErrContextOverflow) {
		t.Errorf("greedy of nothing: %v", err)
	}
	none := func(int, []float32) error { return nil }
	if err := m.Logits(ctx, noise(257), 0, none); !errors.Is(err, ErrContextOverflow) {
		t.Errorf("logits over the context: %v", err)
	}
	if err := m.Logits(ctx, noise(10), 17, none); !errors.Is(err, ErrRequest) {
		t.Errorf("chunk over the model's: %v", err)
	}
	if err := m.Logits(ctx, []int32{-1}, 0, none); !errors.Is(err, ErrRequest) {
		t.Errorf("token -1: %v", err)
	}
	broken := errors.New("full")
	if err := m.Logits(ctx, noise(10), 0, func(int, []float32) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("error of the callback: %v", err)
	}
}

// Greedy, Generate at temperature 0 and the logits say the same.
func TestGreedyAgreesWithGenerate(t *testing.T) {
	m := load(t, testmodel.Write(t, noisy()), Options{})
	prompt := noise(12)
	ids, margins, err := m.Greedy(context.Background(), prompt, 20)
	if err != nil {
		t.Fatal(err)
	}
	res, err := m.Generate(context.Background(), Request{Tokens: prompt, MaxTokens: 20, IgnoreEOS: true, Raw: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	logits := logitsOf(t, m, append(prompt, ids...), 0)
	for i, id := range ids {
		if res.Tokens[i] != id {
			t.Errorf("token %d: greedy %d, generate %d", i, id, res.Tokens[i])
		}
		row := logits[(len(prompt)-1+i)*m.cfg.Vocab:][:m.cfg.Vocab]
		best, err := argmax(row, make([]float32, maxBlocks(len(row))))
		if err != nil || best != id {
			t.Errorf("token %d: greedy %d, best logit %d, %v", i, id, best, err)
		}
		for j, l := range row {
			if j != int(id) && row[id]-l < margins[i] {
				t.Errorf("token %d: margin %v, but %d is %v away", i, margins[i], j, row[id]-l)
			}
		}
	}
}

func TestPositionsWithoutNumbersAreErrors(t *testing.T) {
	c := noisy()
	m := load(t, testmodel.Write(t, c), Options{})
	// As a damaged weight would do it.
	m.st.trace = func(layer int, x []float32) {
		if layer == m.cfg.Layers {
			for i := range x {
				x[i] = float32(math.NaN())
			}
		}
	}
	if _, err := m.Generate(context.Background(), Request{Tokens: noise(5)}, nil); !errors.Is(err, ErrNumeric) {
		t.Errorf("generate: %v, want %v", err, ErrNumeric)
	}
	if _, _, err := m.NLL(context.Background(), noise(5), 5, nil); !errors.Is(err, ErrNumeric) {
		t.Errorf("nll: %v, want %v", err, ErrNumeric)
	}
	if _, _, err := m.Greedy(context.Background(), noise(5), 2); !errors.Is(err, ErrNumeric) {
		t.Errorf("greedy: %v, want %v", err, ErrNumeric)
	}
}
