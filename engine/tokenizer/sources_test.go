// SPDX-License-Identifier: Apache-2.0

package tokenizer_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"windhover/engine/tokenizer"
)

// parts is what the older formats keep of a tokenizer.json.
type parts struct {
	AddedTokens []struct {
		ID      int    `json:"id"`
		Content string `json:"content"`
		Special bool   `json:"special"`
	} `json:"added_tokens"`
	Model struct {
		Vocab  map[string]int `json:"vocab"`
		Merges [][2]string    `json:"merges"`
	} `json:"model"`
}

func readParts(t *testing.T, family string) parts {
	t.Helper()
	var p parts
	if err := json.Unmarshal(readGz(t, family, "tokenizer.json.gz"), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p parts) mergeLines() []string {
	var lines []string
	for _, m := range p.Model.Merges {
		lines = append(lines, m[0]+" "+m[1])
	}
	return lines
}

// gguf lays a tokenizer out as a converter to GGUF does, padding included.
func (p parts) gguf(pre string, padding int) tokenizer.GGUFVocab {
	v := tokenizer.GGUFVocab{Model: "gpt2", Pre: pre, BosID: -1, EosID: -1, PadID: -1, Merges: p.mergeLines()}
	n := 0
	for _, id := range p.Model.Vocab {
		n = max(n, id+1)
	}
	for _, a := range p.AddedTokens {
		n = max(n, a.ID+1)
	}
	v.Tokens, v.Types = make([]string, n+padding), make([]int32, n+padding)
	for i := range padding {
		v.Tokens[n+i], v.Types[n+i] = "[PAD"+strings.Repeat("x", i)+"]", 5
	}
	for content, id := range p.Model.Vocab {
		v.Tokens[id], v.Types[id] = content, 1
	}
	for _, a := range p.AddedTokens {
		v.Tokens[a.ID], v.Types[a.ID] = a.Content, 4
		if a.Special {
			v.Types[a.ID] = 3
		}
	}
	return v
}

var ggufPre = map[string]string{"qwen3": "qwen2", "tiny-qwen": "qwen2", "smollm2": "smollm", "tiny-smol": "smollm"}

func TestGGUFToJSON(t *testing.T) {
	for _, family := range families {
		t.Run(family, func(t *testing.T) {
			in := readParts(t, family).gguf(ggufPre[family], 7)
			out, err := tokenizer.GGUFToJSON(in)
			if err != nil {
				t.Fatal(err)
			}
			again, err := tokenizer.GGUFToJSON(in)
			if err != nil || !bytes.Equal(out, again) {
				t.Errorf("two runs differ (%v)", err)
			}
			tok, err := tokenizer.Parse(out)
			if err != nil {
				t.Fatal(err)
			}
			checkEncode(t, tok, family)
			if got, want := tok.VocabSize(), load(t, family).VocabSize(); got != want {
				t.Errorf("VocabSize() = %d, want %d", got, want)
			}
		})
	}
}

// What is written with tokens around a sequence is read back so.
func TestGGUFToJSONTemplate(t *testing.T) {
	for _, c := range []struct {
		bos, eos       bool
		before, behind []int32
	}{
		{true, false, []int32{1}, nil},
		{false, true, nil, []int32{0}},
		{true, true, []int32{1}, []int32{0}},
	} {
		in := readParts(t, "tiny-qwen").gguf("qwen2", 0)
		in.AddBOS, in.BosID, in.AddEOS, in.EosID = c.bos, 1, c.eos, 0
		out, err := tokenizer.GGUFToJSON(in)
		if err != nil {
			t.Fatal(err)
		}
		tok, err := tokenizer.Parse(out)
		if err != nil {
			t.Fatal(err)
		}
		if before, behind := tok.Prefix(), tok.Suffix(); !slices.Equal(before, c.before) || !slices.Equal(behind, c.behind) {
			t.Errorf("bos %v, eos %v: Prefix() = %v, Suffix() = %v, want %v and %v", c.bos, c.eos, before, behind, c.before, c.behind)
		}
	}
}

func TestGGUFToJSONErrors(t *testing.T) {
	good := func() tokenizer.GGUFVocab {
		return tokenizer.GGUFVocab{Model: "gpt2", Pre: "qwen2", Tokens: []string{"a", "b", "ab", "<e>"},
			Merges: []string{"a b"}, Types: []int32{1, 1, 1, 3}, BosID: -1, EosID: 3, PadID: -1}
	}
	if _, err := tokenizer.GGUFToJSON(good()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*tokenizer.GGUFVocab)
		want   string
	}{
		{"model", func(v *tokenizer.GGUFVocab) { v.Model = "llama" }, `tokenizer.ggml.model "llama"`},
		{"pre", func(v *tokenizer.GGUFVocab) { v.Pre = "tekken" }, `tokenizer.ggml.pre "tekken"`},
		{"no pre", func(v *tokenizer.GGUFVocab) { v.Pre = "" }, `tokenizer.ggml.pre "" does not say`},
		{"default pre", func(v *tokenizer.GGUFVocab) { v.Pre = "default" }, `tokenizer.ggml.pre "default" does not say`},
		{"types", func(v *tokenizer.GGUFVocab) { v.Types = v.Types[:2] }, "token_type has 2 entries for 4"},
		{"type", func(v *tokenizer.GGUFVocab) { v.Types[1] = 6 }, "type 6"},
		{"bos", func(v *tokenizer.GGUFVocab) { v.BosID = 4 }, "bos_token_id 4"},
		{"add bos", func(v *tokenizer.GGUFVocab) { v.AddBOS = true }, "no bos_token_id"},
		{"add eos", func(v *tokenizer.GGUFVocab) { v.AddEOS, v.EosID = true, -1 }, "no eos_token_id"},
		{"merge", func(v *tokenizer.GGUFVocab) { v.Merges[0] = "ab" }, "not two parts"},
		{"merge spaces", func(v *tokenizer.GGUFVocab) { v.Merges[0] = "a  b" }, "not two parts"},
		{"merge result", func(v *tokenizer.GGUFVocab) { v.Merges[0] = "b a" }, "not in the vocabulary"},
		{"merge of unused", func(v *tokenizer.GGUFVocab) { v.Types[2] = 5 }, "not in the vocabulary"},
		{"duplicate", func(v *tokenizer.GGUFVocab) { v.Tokens[1] = "a" }, "two ids"},
		{"utf-8", func(v *tokenizer.GGUFVocab) { v.Tokens[1] = "\xff" }, "not UTF-8"},
		{"empty", func(v *tokenizer.GGUFVocab) { v.Tokens, v.Types, v.EosID, v.Merges = nil, nil, -1, nil }, "empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := good()
			c.change(&v)
			_, err := tokenizer.GGUFToJSON(v)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestFromVocabMerges(t *testing.T) {
	config, err := os.ReadFile(filepath.Join("testdata", "qwen3", "tokenizer_config.json"))
	if err != nil {
		t.Fatal(err)
	}
	p := readParts(t, "qwen3")
	vocab, err := json.Marshal(p.Model.Vocab)
	if err != nil {
		t.Fatal(err)
	}
	merges := "#version: 0.2\n" + strings.Join(p.mergeLines(), "\n") + "\n"
	tok, err := tokenizer.FromVocabMerges(vocab, []byte(merges), config)
	if err != nil {
		t.Fatal(err)
	}
	checkEncode(t, tok, "qwen3")
}

func TestFromVocabMergesConfig(t *testing.T) {
	const vocab, merges = `{"a":0,"b":1,"ab":2,"<e>":3,"Ġ":4}`, "a b"
	for _, c := range []struct{ name, config, text, want string }{
		{"old style", `{"tokenizer_class":"GPT2Tokenizer","eos_token":"<e>","unk_token":{"content":"<e>"},"pad_token":null}`, "ab<e>", "[2 3]"},
		{"prefix space", `{"tokenizer_class":"GPT2TokenizerFast","add_prefix_space":true}`, "ab", "[4 2]"},
		{"added", `{"tokenizer_class":"Qwen2Tokenizer","added_tokens_decoder":{"9":{"content":"<x>","special":true}}}`, "<x>ab", "[9 2]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tok, err := tokenizer.FromVocabMerges([]byte(vocab), []byte(merges), []byte(c.config))
			if err != nil {
				t.Fatal(err)
			}
			ids, err := json.Marshal(tok.Encode(c.text, true))
			if got := strings.ReplaceAll(string(ids), ",", " "); err != nil || got != c.want {
				t.Errorf("Encode(%q) = %s (%v), want %s", c.text, got, err, c.want)
			}
		})
	}
	for _, c := range []struct{ name, config, want string }{
		{"none", ``, "tokenizer_config.json is needed"},
		{"class", `{"tokenizer_class":"LlamaTokenizer"}`, `tokenizer_class "LlamaTokenizer"`},
		{"no id", `{"tokenizer_class":"Qwen2Tokenizer","eos_token":"<|im_end|>"}`, `"<|im_end|>" has no id`},
		{"bad id", `{"tokenizer_class":"Qwen2Tokenizer","added_tokens_decoder":{"x":{"content":"<x>"}}}`, `"x" is no token id`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := tokenizer.FromVocabMerges([]byte(vocab), []byte(merges), []byte(c.config))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}
