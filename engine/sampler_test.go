// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"math"
	"slices"
	"testing"
)

// draws picks n tokens from the same logits.
func draws(t *testing.T, opt Sampling, logits []float32, n int) map[int32]int {
	t.Helper()
	s := newSampler(newScratch(len(logits)), opt, nil)
	counts := map[int32]int{}
	for range n {
		id, err := s.pick(slices.Clone(logits))
		if err != nil {
			t.Fatal(err)
		}
		counts[id]++
	}
	return counts
}

// ln gives the logits of probabilities.
func ln(p ...float64) []float32 {
	logits := make([]float32, len(p))
	for i, v := range p {
		logits[i] = float32(math.Log(v))
	}
	return logits
}

func TestFiltersKeep(t *testing.T) {
	p := ln(0.05, 0.4, 0.1, 0.2, 0.25)
	cases := []struct {
		name string
		opt  Sampling
		want []int32
	}{
		{"greedy", Sampling{}, []int32{1}},
		{"greedy ignores filters", Sampling{TopK: 3, TopP: 0.9}, []int32{1}},
		{"all", Sampling{Temperature: 1}, []int32{0, 1, 2, 3, 4}},
		{"top-k 1", Sampling{Temperature: 1, TopK: 1}, []int32{1}},
		{"top-k 3", Sampling{Temperature: 1, TopK: 3}, []int32{1, 3, 4}},
		{"top-k beyond", Sampling{Temperature: 1, TopK: 99}, []int32{0, 1, 2, 3, 4}},
		{"top-p tiny keeps one", Sampling{Temperature: 1, TopP: 0.0001}, []int32{1}},
		{"top-p up to the second", Sampling{Temperature: 1, TopP: 0.6}, []int32{1, 4}},
		{"top-p just over the second", Sampling{Temperature: 1, TopP: 0.66}, []int32{1, 3, 4}},
		{"top-p 1 is off", Sampling{Temperature: 1, TopP: 1}, []int32{0, 1, 2, 3, 4}},
		{"top-p of what top-k left", Sampling{Temperature: 1, TopK: 2, TopP: 0.6}, []int32{1}}, // 0.4/0.65 = 0.615
		{"min-p", Sampling{Temperature: 1, MinP: 0.3}, []int32{1, 3, 4}},
		{"min-p 1", Sampling{Temperature: 1, MinP: 1}, []int32{1}},
		{"min-p after top-k", Sampling{Temperature: 1, TopK: 4, MinP: 0.3}, []int32{1, 3, 4}},
		// Temperature comes first: it flattens before top-p and min-p look.
		{"temperature before top-p", Sampling{Temperature: 100, TopP: 0.66}, []int32{1, 2, 3, 4}},
		{"temperature before min-p", Sampling{Temperature: 10, MinP: 0.8}, []int32{0, 1, 2, 3, 4}},
		{"cold", Sampling{Temperature: 0.01}, []int32{1}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			counts := draws(t, c.opt, p, 2000)
			var got []int32
			for id := range counts {
				got = append(got, id)
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("tokens %v, want %v", got, c.want)
			}
		})
	}
}

func TestDrawFollowsProbabilities(t *testing.T) {
	p := []float64{0.05, 0.4, 0.1, 0.2, 0.25}
	const n = 40000
	for _, opt := range []Sampling{{Temperature: 1, Seed: 1}, {Temperature: 1, TopK: 5, Seed: 2}, {Temperature: 1, TopP: 0.9999, Seed: 3}} {
		counts := draws(t, opt, ln(p...), n)
		for id, want := range p {
			got := float64(counts[int32(id)]) / n
			// Five standard deviations.
			if limit := 5 * math.Sqrt(want*(1-want)/n); math.Abs(got-want) > limit {
				t.Errorf("%+v: token %d drawn with %.4f, want %.4f ± %.4f", opt, id, got, want, limit)
			}
		}
	}
}

func TestTiesGoToTheLowerID(t *testing.T) {
	flat := make([]float32, 100)
	if id, err := argmax(flat, make([]float32, maxBlocks(len(flat)))); err != nil || id != 0 {
		t.Errorf("argmax of equal logits is %d, %v, want 0", id, err)
	}
	counts := draws(t, Sampling{Temperature: 1, TopK: 3}, flat, 500)
	for id := range counts {
		if id > 2 {
			t.Errorf("token %d drawn, top-k 3 of equal logits is 0 to 2", id)
		}
	}
}

// The heap and the growing look at top-p against a plain sort.
func TestTopAgreesWithSort(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 64, 65, 500, 1000, 5000} {
		logits := make([]float32, n)
		for i := range logits {
			logits[i] = float32((i*7919)%97) / 10 // many equal ones
			if n == 5000 {
				logits[i] = float32((i*7919)%5003-2000) / 300
			}
		}
		all := make([]candidate, n)
		for i, l := range logits {
			all[i] = candidate{l, int32(i)}
		}
		slices.SortFunc(all, func(a, b candidate) int {
			if a.better(b) {
				return -1
			}
			return 1
		})
		s := newSampler(newScratch(n), Sampling{}, nil)
		if _, err := argmax(logits, s.most); err != nil {
			t.Fatal(err)
		}
		for _, k := range []int{1, 2, 3, 20, 64, 65, 77, 79, 80, 200, n - 1, n, n + 1} {
			if k < 1 {
				continue
			}
			if got, want := s.top(logits, k), all[:min(k, n)]; !slices.Equal(got, want) {
				t.Errorf("top %d of %d: %v, want %v", k, n, got, want)
			}
		}
		for _, p := range []float32{0.01, 0.3, 0.9, 0.99999} {
			s.opt = Sampling{Temperature: 2, TopP: p}
			total := 0.0
			for _, l := range logits {
				total += s.share(l, all[0].logit)
			}
			want, _ := s.nucleus(all, all[0].logit, total)
			if got := s.best(logits, all[0].logit); !slices.Equal(got, want) {
				t.Errorf("top-p %v of %d: %d candidates, want %d", p, n, len(got), len(want))
			}
		}
	}
}

func TestRepetitionPenalty(t *testing.T) {
	s := newSampler(newScratch(4), Sampling{RepeatPenalty: 2}, []int32{0, 2, 2})
	logits := []float32{4, 3, -1, -3}
	if id, err := s.pick(logits); err != nil || id != 1 {
		t.Errorf("picked %d, %v, want 1", id, err)
	}
	// Once for each token, however often it occurs.
	if want := []float32{2, 3, -2, -3}; !slices.Equal(logits, want) {
		t.Errorf("logits %v, want %v", logits, want)
	}
	s.accept(1)
	logits = []float32{4, 3.5, -1, -3}
	if id, err := s.pick(logits); err != nil || id != 0 {
		t.Errorf("after a token of the answer: picked %d, %v, want 0", id, err)
	}
}

func TestLogitsThatAreNoNumbers(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, logits := range [][]float32{{nan, 1}, {1, nan}, {-inf, -inf}, {1, inf}, {nan, nan}} {
		s := newSampler(newScratch(2), Sampling{Temperature: 1}, nil)
		if id, err := s.pick(logits); !errors.Is(err, ErrNumeric) {
			t.Errorf("%v: picked %d, %v, want %v", logits, id, err, ErrNumeric)
		}
	}
	if got := draws(t, Sampling{Temperature: 1}, []float32{-inf, 1}, 100); got[1] != 100 {
		t.Errorf("an impossible token was drawn: %v", got)
	}
}

func TestDrawsAreStable(t *testing.T) {
	// The documented generator and order are part of the contract. The tokens
	// were computed from that description by other means.
	s := newSampler(newScratch(5), Sampling{Temperature: 1, TopP: 0.95, Seed: 42}, nil)
	var got []int32
	for range 12 {
		id, err := s.pick(ln(0.05, 0.4, 0.1, 0.2, 0.25))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, id)
	}
	if want := []int32{4, 3, 4, 1, 1, 1, 4, 1, 1, 4, 4, 4}; !slices.Equal(got, want) {
		t.Errorf("tokens %v, want %v", got, want)
	}
}

func BenchmarkSampler(b *testing.B) {
	logits := make([]float32, 151936)
	for i := range logits {
		logits[i] = float32((i*7919)%10007) / 1000
	}
	prompt := make([]int32, 2000)
	for i := range prompt {
		prompt[i] = int32(i * 31)
	}
	for name, opt := range map[string]Sampling{
		"greedy": {}, "top-k": {Temperature: 0.7, TopK: 20, TopP: 0.8}, "top-p": {Temperature: 0.7, TopP: 0.8}, "all": {Temperature: 1},
		"top-k and penalty": {Temperature: 0.7, TopK: 20, TopP: 0.8, RepeatPenalty: 1.1},
	} {
		b.Run(name, func(b *testing.B) {
			s := newSampler(newScratch(len(logits)), opt, prompt)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.pick(logits); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
