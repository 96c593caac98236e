// SPDX-License-Identifier: Apache-2.0

package grammar_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"sync"
	"testing"

	"windhover/engine"
	"windhover/internal/testmodel"
)

// randomTools are up to three tools with random parameters; the first is strict, the
// others may be. schemas are those that a call of each keeps to.
func randomTools(t *testing.T, r *rand.Rand) (tools []json.RawMessage, schemas map[string]any) {
	t.Helper()
	schemas = map[string]any{}
	for i := range 1 + r.IntN(3) {
		parameters := map[string]any{
			"type": "object", "properties": map[string]any{"a": randomSchema(r, 2, false), "ü": randomSchema(r, 1, false)},
			"required": []any{"a"}, "additionalProperties": r.IntN(2) == 0,
		}
		name, strict := fmt.Sprintf("f%d", i), i == 0 || r.IntN(2) == 0
		schemas[name] = parameters
		if !strict {
			schemas[name] = map[string]any{"type": "object"}
		}
		raw, err := json.Marshal(map[string]any{"type": "function", "function": map[string]any{"name": name, "strict": strict, "parameters": parameters}})
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, raw)
	}
	return tools, schemas
}

// A model with random weights, which gets to calls by chance and would write anything in
// them, keeps to random parameters of strict tools by another reading of JSON schema,
// and says the same on other threads and beside other requests.
func TestStrictCallsAreValid_P260(t *testing.T) {
	marked := testmodel.Config{Random: true, MaxSeq: 1024, Marks: []string{"<tool_call>", "</tool_call>"}}
	spelt := testmodel.Config{Random: true, MaxSeq: 1024}
	for i := range 80 { // so many that chance gets to a marker in the middle, too
		spelt.Words = append(spelt.Words, fmt.Sprintf("%d<tool_call", i), fmt.Sprintf(">%d", i))
	}
	spelt.Words = append(spelt.Words, ">\n", ">\n{", "</tool_call>")
	for i := range 40 {
		spelt.Words = append(spelt.Words, fmt.Sprintf("%d <tool_call>", i))
	}
	for name, c := range map[string]testmodel.Config{"a token": marked, "text": spelt} {
		t.Run(name, func(t *testing.T) { strictCallsAreValid(t, c) })
	}
}

func strictCallsAreValid(t *testing.T, c testmodel.Config) {
	path := testmodel.Write(t, c)
	m := open(t, path, 1)
	n := 32
	if testing.Short() {
		n = 12
	}
	var list []engine.Request
	var schemas []map[string]any
	for seed := range uint64(n) {
		tools, keep := randomTools(t, newRandom(seed))
		schemas = append(schemas, keep)
		list = append(list, engine.Request{
			Tokens: m.Tokenizer().Encode("An answer: ", false), Tools: tools, MaxTokens: 350, IgnoreEOS: true,
			Sampling: engine.Sampling{Temperature: 1.3, Seed: seed}, Logprobs: seed%2 == 0,
		})
	}
	generate := func(m *engine.Model, r engine.Request) *engine.Result {
		res, err := m.Generate(context.Background(), r, nil)
		if err != nil {
			t.Errorf("%s: %v", r.Tools, err)
			return &engine.Result{}
		}
		res.Timing, res.Usage.Cached = engine.Timing{}, 0
		return res
	}
	var alone []*engine.Result
	calls, strict := 0, 0
	for i, r := range list {
		res := generate(m, r)
		alone = append(alone, res)
		for _, call := range res.ToolCalls {
			schema, known := schemas[i][call.Name]
			args, err := decode(call.Arguments)
			if err == nil && known {
				err = validate(schema, schema, args)
			}
			if err != nil || !known {
				t.Errorf("seed %d: %s: %+v: %v", i, r.Tools, call, err)
			}
			if calls++; call.Name == "f0" {
				strict++
			}
		}
	}
	t.Logf("%d answers have %d calls, %d of a strict tool", n, calls, strict)
	if strict < n/8 {
		t.Errorf("%d answers have %d calls, %d of a tool that is strict", n, calls, strict)
	}
	for _, threads := range []int{1, 2} {
		m := open(t, path, min(threads, runtime.NumCPU()))
		var beside sync.WaitGroup
		for at := range 4 {
			beside.Go(func() {
				for i := at; i < n; i += 4 {
					if res := generate(m, list[i]); !reflect.DeepEqual(res, alone[i]) {
						t.Errorf("%d threads: %s: %+v beside others, %+v alone", threads, list[i].Tools, res, alone[i])
					}
				}
			})
		}
		beside.Wait()
	}
}
