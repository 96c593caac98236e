// SPDX-License-Identifier: Apache-2.0

package grammar_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"windhover/engine/grammar"
	"windhover/engine/tokenizer"
)

// qwenVocab is the vocabulary of Qwen3, with the logits that pad it; nil where the
// golden files are not there.
func qwenVocab(tb testing.TB) (*grammar.Vocabulary, *tokenizer.Tokenizer) {
	tb.Helper()
	f, err := os.Open("../../../shared/golden/tokenizer/qwen3/tokenizer.json.gz")
	if err != nil {
		tb.Skip("no golden tokenizer of Qwen3 beside the tree")
	}
	defer func() { _ = f.Close() }() // read only
	z, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		tb.Fatal(err)
	}
	tok, err := tokenizer.Parse(raw)
	if err != nil {
		tb.Fatal(err)
	}
	start := time.Now()
	v := grammar.NewVocabulary(151936, func(id int32) []byte {
		if tok.Added(id) {
			return nil
		}
		return tok.TokenBytes(id)
	})
	tb.Logf("vocabulary in %v", time.Since(start))
	return v, tok
}

const orderSchema = `{"type":"object","properties":{
	"customer":{"type":"object","properties":{"name":{"type":"string","maxLength":40},"email":{"type":"string"},"vip":{"type":"boolean"}},"required":["name","email"]},
	"lines":{"type":"array","minItems":1,"maxItems":8,"items":{"type":"object","properties":{
		"sku":{"type":"string","pattern":"^[A-Z]{3}-\\d{4}$"},"count":{"type":"integer"},"price":{"type":"number"},"note":{"type":["string","null"]}},
		"required":["sku","count","price"],"additionalProperties":false}},
	"status":{"enum":["new","paid","sent"]},"tags":{"type":"array","items":{"type":"string"}}},
	"required":["customer","lines","status"]}`

const orderAnswer = `{"customer": {"name": "Grace Hopper", "email": "grace@example.org", "vip": true}, "lines": [{"sku": "ABC-1234", "count": 3, "price": 19.99, "note": "Please wrap it in blue paper, 世界 and all."}, {"sku": "XYZ-0001", "count": 1, "price": 250, "note": null}], "status": "paid", "tags": ["gift", "fast delivery"]}`

// The answers that a real tokenizer spells are taken token by token.
func TestQwenVocabulary(t *testing.T) {
	v, tok := qwenVocab(t)
	for _, tt := range []struct{ schema, text string }{
		{orderSchema, orderAnswer},
		{`{"type":"object"}`, orderAnswer},
		{`{}`, "[\n  1,\n  {\n    \"a\": \"😀\"\n  }\n]"},
	} {
		g, err := grammar.Compile([]byte(tt.schema))
		if err != nil {
			t.Fatal(err)
		}
		x := grammar.NewMachine(g, v, 64<<20, 256<<20).Matcher()
		for i, id := range tok.Encode(tt.text, false) {
			if mask := x.Mask(); mask == nil || mask[id>>6]>>(id&63)&1 == 0 {
				t.Fatalf("%.40s: token %d, %q, may not come", tt.schema, i, tok.TokenBytes(id))
			}
			x.Accept(id)
		}
		if !x.Complete() || !x.Ended() {
			t.Errorf("%.40s: complete %v, ended %v", tt.schema, x.Complete(), x.Ended())
		}
	}
}

// BenchmarkMask: a token of an answer. "first" makes all states and masks anew,
// "again" has those of an answer before.
func BenchmarkMask(b *testing.B) {
	v, tok := qwenVocab(b)
	ids := tok.Encode(orderAnswer, false)
	g, err := grammar.Compile([]byte(orderSchema))
	if err != nil {
		b.Fatal(err)
	}
	answer := func(m *grammar.Machine) {
		x := m.Matcher()
		for _, id := range ids {
			if x.Mask() == nil || !x.Accept(id) {
				b.Fatal("the answer is not taken")
			}
		}
	}
	perToken := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(ids)), "us/token")
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			answer(grammar.NewMachine(g, v, 64<<20, 256<<20))
		}
		perToken(b)
	})
	b.Run("again", func(b *testing.B) {
		m := grammar.NewMachine(g, v, 64<<20, 256<<20)
		answer(m)
		for b.Loop() {
			answer(m)
		}
		perToken(b)
	})
	for _, length := range []string{"", `,"maxLength":100000`, `,"maxLength":60`} {
		b.Run("one mask of a string"+strings.ReplaceAll(length, `"`, ""), func(b *testing.B) {
			g, err := grammar.Compile(fmt.Appendf(nil, `{"type":"string"%s}`, length))
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				x := grammar.NewMachine(g, v, 64<<20, 256<<20).Matcher()
				x.Accept(tok.Encode(`"`, false)[0])
				if x.Mask() == nil {
					b.Fatal("no mask")
				}
			}
		})
	}
	b.Run("compile", func(b *testing.B) {
		if !json.Valid([]byte(orderSchema)) {
			b.Fatal("no JSON")
		}
		for b.Loop() {
			if _, err := grammar.Compile([]byte(orderSchema)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
