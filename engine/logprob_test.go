// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"math"
	"slices"
	"testing"

	"windhover/internal/testmodel"
)

func TestNaturalLog(t *testing.T) {
	for _, x := range []float64{1, 2, 0.5, math.E, 1e-300, 1e300, 151936, 1.0000001, math.Sqrt2, math.Sqrt2 / 2, 3} {
		got, want := naturalLog(x), math.Log(x)
		if math.Abs(got-want) > 1e-15*max(1, math.Abs(want)) {
			t.Errorf("ln %v: got %v, want %v", x, got, want)
		}
	}
}

// Logprobs are those of the raw distribution: they sum to one, and neither
// penalties nor filters nor forms change them.
func TestLogprobs_P107(t *testing.T) {
	logits := ln(0.05, 0.4, 0.1, 0.2, 0.25)
	s := newSampler(newScratch(len(logits)), Sampling{Temperature: 0.1, TopK: 2, RepeatPenalty: 4}, []int32{1, 3})
	s.remember(logits)
	if _, err := s.pick(slices.Clone(logits)); err != nil {
		t.Fatal(err)
	}
	l, err := s.logprob(2, 3)
	if err != nil {
		t.Fatal(err)
	}
	near := func(l Logprob, id int32, p float64) {
		t.Helper()
		if l.ID != id || math.Abs(math.Exp(float64(l.Value))-p) > 1e-6 {
			t.Errorf("token %d with %v, want %d with %v", l.ID, math.Exp(float64(l.Value)), id, p)
		}
	}
	near(l, 2, 0.1)
	if len(l.Top) != 3 {
		t.Fatalf("%d best, want 3", len(l.Top))
	}
	near(l.Top[0], 1, 0.4)
	near(l.Top[1], 4, 0.25)
	near(l.Top[2], 3, 0.2)
	s.remember([]float32{0, float32(math.NaN()), 1, 2, 3})
	if _, err := s.logprob(0, 0); err == nil {
		t.Error("logits that are no numbers: no error")
	}
}

// Each token of the answer has its logprob, none of the thinking has.
func TestLogprobsOfAnAnswer(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{})
	for _, tt := range []struct {
		name   string
		req    Request
		tokens string
	}{
		{"text", Request{Tokens: chat("hi")}, testmodel.Answer},
		{"behind thinking", Request{Tokens: thinking("hi")}, "\n" + testmodel.Answer},
		{"cut", Request{Tokens: chat("hi"), MaxTokens: 3}, "Tin"},
		{"held back", Request{Tokens: chat("hi"), Stop: []string{"el.x"}}, testmodel.Answer},
		{"half a character", Request{Tokens: testmodel.Tokens("9"), MaxTokens: 4}, "世\xe7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.Logprobs, tt.req.TopLogprobs = true, 2
			var told []Logprob
			got, err := m.Generate(context.Background(), tt.req, func(e Event) error {
				if e.Delta != nil {
					told = append(told, e.Delta.Logprobs...)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			want := testmodel.Tokens(tt.tokens)
			if len(told) != len(want) || len(got.Logprobs) != len(want) {
				t.Fatalf("%d told, %d in the result, want %d", len(told), len(got.Logprobs), len(want))
			}
			for i, l := range told {
				if l.ID != want[i] || got.Logprobs[i].ID != l.ID || l.Value > 0 || len(l.Top) != 2 || l.Top[0].ID != l.ID || l.Top[0].Value != l.Value {
					t.Errorf("token %d: %+v, want %d, which is the best", i, l, want[i])
				}
			}
		})
	}
}
