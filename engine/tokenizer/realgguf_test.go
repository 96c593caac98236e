// SPDX-License-Identifier: Apache-2.0

package tokenizer_test

import (
	"os"
	"testing"

	"windhover/engine/tokenizer"
	"windhover/vqf/gguf"
)

// TestRealGGUF takes the tokenizer of a genuine SmolLM2 GGUF file, which
// WINDHOVER_SMOLLM2 names. TestGGUFToJSON does the same with the tokens and
// merges recorded from it.
func TestRealGGUF(t *testing.T) {
	path := os.Getenv("WINDHOVER_SMOLLM2")
	if path == "" {
		t.Skip("WINDHOVER_SMOLLM2 names no GGUF file of SmolLM2")
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text := func(key string) string {
		v, err := f.Text(key)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	texts := func(key string) []string {
		v, err := f.Texts(key)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	id := func(key string) int {
		v, err := f.Uint(key)
		if err != nil {
			t.Fatal(err)
		}
		return int(v)
	}
	types, err := f.Ints("tokenizer.ggml.token_type")
	if err != nil {
		t.Fatal(err)
	}
	in := tokenizer.GGUFVocab{
		Model: text("tokenizer.ggml.model"), Pre: text("tokenizer.ggml.pre"),
		Tokens: texts("tokenizer.ggml.tokens"), Merges: texts("tokenizer.ggml.merges"),
		BosID: id("tokenizer.ggml.bos_token_id"), EosID: id("tokenizer.ggml.eos_token_id"),
		PadID: id("tokenizer.ggml.padding_token_id"),
	}
	for _, v := range types {
		in.Types = append(in.Types, int32(v))
	}
	out, err := tokenizer.GGUFToJSON(in)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Parse(out)
	if err != nil {
		t.Fatal(err)
	}
	checkEncode(t, tok, "smollm2")
}
