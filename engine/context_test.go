// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"slices"
	"testing"

	"windhover/internal/testmodel"
)

// A context of 32768 tokens, as the header names it: counted before it is loaded,
// computed to the last position, the same in any chunks, kept for the next turn.
func TestLongContext(t *testing.T) {
	c := noisy()
	c.Layers, c.Heads, c.KVHeads, c.HeadDim, c.Dim, c.FFN, c.MaxSeq = 1, 1, 1, 32, 32, 32, 32768
	path := testmodel.Write(t, c)
	need, err := Estimate(path, Options{})
	if err != nil || need.Context != 32768 || need.KV != 32768*need.KVPerToken {
		t.Fatalf("need %+v, %v", need, err)
	}
	limit := need.Weights + need.Scratch + 20000*need.KVPerToken
	if small, err := Estimate(path, Options{MemoryLimit: limit}); err != nil || small.Context >= 32768 || small.Context < 16384 {
		t.Errorf("under a limit: %+v, %v", small, err)
	}
	var short *MemoryError
	if _, err := Load(path, Options{MemoryLimit: limit, Context: 32768, Residency: ResidencyFull}); !errors.As(err, &short) || short.Need.Context != 32768 {
		t.Errorf("more than there is: %v", err)
	}
	if testing.Short() {
		t.Skip("computes 32768 tokens four times, which takes minutes without vector instructions")
	}
	ctx := context.Background()
	long := make([]int32, 32700)
	for i := range long {
		long[i] = int32((i*i/7 + i*13) % testmodel.Vocab)
	}
	for _, kv := range []string{"f16", "int8"} {
		m := load(t, path, Options{KV: kv})
		var over *ContextError
		if _, err := m.Generate(ctx, Request{Tokens: long, MaxTokens: 69}, nil); !errors.As(err, &over) || *over != (ContextError{Prompt: 32700, MaxTokens: 69, Context: 32768}) {
			t.Errorf("%s: %v, want the numbers", kv, err)
		}
		req := Request{Tokens: long, MaxTokens: 40, IgnoreEOS: true, Raw: true, Sampling: Sampling{Temperature: 1, Seed: 4}}
		first, err := m.Generate(ctx, req, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Tokens, req.MaxTokens = append(slices.Clone(long), first.Tokens...), 0
		next, err := m.Generate(ctx, req, nil)
		if err != nil || next.Usage.Cached != 32739 || len(next.Tokens) != 28 {
			t.Errorf("%s: %+v, %v, want 32739 cached and 28 tokens", kv, next, err)
		}
		other := load(t, path, Options{KV: kv, Chunk: 1000, Threads: 1})
		if want := tokensOf(t, other, req); !slices.Equal(next.Tokens, want) {
			t.Errorf("%s: %v, in other chunks %v", kv, next.Tokens, want)
		}
	}
}
