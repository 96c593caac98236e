// SPDX-License-Identifier: Apache-2.0

package grammar_test

import (
	"context"
	"encoding/json"
	"runtime"
	"slices"
	"sync"
	"testing"

	"windhover/engine"
	"windhover/internal/testmodel"
)

// open loads a model for as long as the test runs.
func open(t *testing.T, path string, threads int) *engine.Model {
	t.Helper()
	m, err := engine.Load(path, engine.Options{Threads: threads, CacheBytes: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// A model with random weights, at temperature 1, keeps to random schemas by another
// reading of JSON schema, and says the same on other threads and beside other requests.
func TestModelAnswersAreValid_P231(t *testing.T) {
	path := testmodel.Write(t, testmodel.Config{Random: true, Q8: 2, MaxSeq: 1024})
	m := open(t, path, 1)
	n := 120
	if testing.Short() {
		n = 40
	}
	var list []engine.Request
	for seed := range uint64(n) {
		schema := randomSchema(newRandom(seed), 3, false)
		raw, err := json.Marshal(schema)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, engine.Request{
			Tokens: m.Tokenizer().Encode("An answer: ", false), Schema: raw, MaxTokens: 600,
			Sampling: engine.Sampling{Temperature: 1, Seed: seed},
		})
	}
	generate := func(m *engine.Model, r engine.Request) *engine.Result {
		res, err := m.Generate(context.Background(), r, nil)
		if err != nil {
			t.Errorf("%s: %v", r.Schema, err)
			return &engine.Result{}
		}
		return res
	}
	var alone []*engine.Result
	whole := 0
	for _, r := range list {
		res := generate(m, r)
		alone = append(alone, res)
		if res.Finish != engine.FinishStop {
			continue // cut off
		}
		whole++
		var schema any
		if err := json.Unmarshal(r.Schema, &schema); err != nil {
			t.Fatal(err)
		}
		got, err := decode(res.Text)
		if err == nil {
			err = validate(schema, schema, got)
		}
		if err != nil {
			t.Errorf("seed %d: %s: %q: %v", r.Sampling.Seed, r.Schema, res.Text, err)
		}
	}
	if whole < n/2 {
		t.Errorf("of %d answers %d came to an end", n, whole)
	}
	for _, threads := range []int{1, 2} {
		m := open(t, path, min(threads, runtime.NumCPU()))
		var beside sync.WaitGroup
		for at := range 4 {
			beside.Go(func() {
				for i := at; i < n; i += 4 {
					if res := generate(m, list[i]); res.Text != alone[i].Text || res.Finish != alone[i].Finish || !slices.Equal(res.Tokens, alone[i].Tokens) {
						t.Errorf("%d threads: %s: %q beside others, %q alone", threads, list[i].Schema, res.Text, alone[i].Text)
					}
				}
			})
		}
		beside.Wait()
	}
}
