// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"windhover/engine/tokenizer"
	"windhover/internal/testmodel"
	"windhover/vqf/convert"
)

// embedding is a mini as Qwen3-Embedding is published: "model." is not in front of
// any tensor, the configuration says that there is a head, and there is none.
func embedding() mini {
	m := miniature
	m.embeds = true
	return m
}

const (
	modulesJSON = `[{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"},
{"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"},
{"idx":2,"name":"2","path":"2_Normalize","type":"sentence_transformers.models.Normalize"}]`
	poolingJSON = `{"word_embedding_dimension":32,"pooling_mode_cls_token":false,"pooling_mode_mean_tokens":false,"pooling_mode_max_tokens":false,
"pooling_mode_mean_sqrt_len_tokens":false,"pooling_mode_weightedmean_tokens":false,"pooling_mode_lasttoken":true,"include_prompt":true}`
)

// embedding writes what Qwen3-Embedding has beside its weights: the end of a text,
// <|endoftext|>, is another token than that of a turn.
func (m mini) embedding(t testing.TB, dir string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "1_Pooling"), 0o700); err != nil {
		t.Fatal(err)
	}
	tokens, types := miniTokens(m.vocab)
	b, err := tokenizer.GGUFToJSON(tokenizer.GGUFVocab{Model: "gpt2", Pre: "qwen2", Tokens: tokens, Types: types, BosID: -1, EosID: 1, PadID: 1, AddEOS: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"modules.json":           modulesJSON,
		"1_Pooling/config.json":  poolingJSON,
		"tokenizer.json":         string(b),
		"tokenizer_config.json":  `{"add_bos_token":false,"bos_token":null,"eos_token":"<|im_end|>","pad_token":"<|endoftext|>","chat_template":"{{ messages[0].content }}"}`,
		"generation_config.json": `{"bos_token_id":1,"eos_token_id":1,"max_new_tokens":2048}`,
	} {
		writeFile(t, filepath.Join(dir, filepath.FromSlash(name)), []byte(text))
	}
}

// pools sets the key of a GGUF file that says how embeddings are made.
func pools(kind uint32) func(*ggufWriter, map[string][]float32) {
	return func(g *ggufWriter, _ map[string][]float32) {
		g.set("qwen3.pooling_type", kind)
		g.set("tokenizer.chat_template", "{{ messages[0].content }}")
	}
}

// Directory and GGUF file of an embedding model give the same weights, tokenizer and
// metadata.
func TestEmbeddingModel(t *testing.T) {
	m := embedding()
	dir := m.hfDir(t, "qwen3", "BF16", nil)
	hf, r := run(t, dir, convert.Options{})
	g, rg := run(t, m.ggufFile(t, "qwen3", "BF16", pools(3)), convert.Options{})
	sameTensors(t, hf, g)
	equal(t, "report", []string{r.Pooling, rg.Pooling}, []string{"last", "last"})
	if text := r.String(); !strings.Contains(text, "embeddings of the last token\n") || !strings.Contains(text, "the output matrix is missing") {
		t.Errorf("the report does not say what the model is for:\n%s", text)
	}
	tokA, metaA := embedded(t, hf)
	tokB, metaB := embedded(t, g)
	if !bytes.Equal(tokA, readFile(t, filepath.Join(dir, "tokenizer.json"))) || !bytes.Equal(tokA, tokB) {
		t.Error("the tokenizers differ")
	}
	tok, err := tokenizer.Parse(tokB)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "suffix", tok.Suffix(), []int32{1})
	equal(t, "pooling", metaA["pooling"], "last")
	equal(t, "eos_id", metaA["eos_id"], 2.0)
	equal(t, "stop_ids", metaA["stop_ids"], []any{1.0, 2.0})
	for _, key := range []string{"pooling", "eos_token", "eos_id", "stop_ids", "chat_template", "add_bos", "tied", "params", "context_length", "architecture"} {
		equal(t, "gguf "+key, metaB[key], metaA[key])
	}
	var files []string
	for _, s := range metaA["sources"].([]any) {
		source := s.(map[string]any)
		files = append(files, source["file"].(string))
		equal(t, "sha256", source["sha256"], sha(readFile(t, filepath.Join(dir, filepath.FromSlash(files[len(files)-1])))))
	}
	equal(t, "sources", files, []string{"modules.json", "1_Pooling/config.json", "model.safetensors", "config.json", "tokenizer_config.json", "tokenizer.json", "generation_config.json"})
}

// Names with and without "model." are the same weights, whatever the model is for.
func TestBodyNames(t *testing.T) {
	tied := miniature
	tied.tied = true
	want, _ := run(t, tied.hfDir(t, "qwen3", "BF16", nil), convert.Options{Bare: true})
	m := embedding()
	dir := m.hfDir(t, "qwen3", "BF16", func(c map[string]any, _ map[string][]float32) { c["tie_word_embeddings"] = true })
	got, _ := run(t, dir, convert.Options{Bare: true})
	if !bytes.Equal(readFile(t, got), readFile(t, want)) {
		t.Error("other bytes")
	}
	if err := os.Remove(filepath.Join(dir, "modules.json")); err != nil {
		t.Fatal(err)
	}
	plain, r := run(t, dir, convert.Options{})
	sameTensors(t, plain, want)
	_, meta := embedded(t, plain)
	if _, there := meta["pooling"]; there || r.Pooling != "" || strings.Contains(r.String(), "embeddings of") {
		t.Errorf("without modules.json it makes embeddings, by %v", meta["pooling"])
	}
	mustFail(t, m.hfDir(t, "qwen3", "BF16", func(c map[string]any, values map[string][]float32) {
		delete(values, "model.layers.1.mlp.up_proj.weight")
	}),
		convert.Options{}, convert.ErrSource, `"layers.1.mlp.up_proj.weight" is missing`)
	both := m.hfDir(t, "qwen3", "BF16", func(_ map[string]any, values map[string][]float32) {
		values["model.model.norm.weight"] = make([]float32, 32)
	})
	mustFail(t, both, convert.Options{}, convert.ErrUnsupported, `"model.norm.weight"`)
}

// The class without a head is taken for its embeddings only, and only then may a head
// be missing that the configuration announces.
func TestEmbeddingClass(t *testing.T) {
	class := func(c map[string]any, _ map[string][]float32) { c["architectures"] = []string{"Qwen3Model"} }
	_, r := run(t, embedding().hfDir(t, "qwen3", "BF16", class), convert.Options{})
	equal(t, "pooling", r.Pooling, "last")
	for _, c := range []struct {
		edit  func(map[string]any, map[string][]float32)
		kind  error
		wants string
	}{
		{class, convert.ErrUnsupported, "Qwen3Model is not converted"},
		{nil, convert.ErrSource, `"lm_head.weight" is missing`},
	} {
		dir := embedding().hfDir(t, "qwen3", "BF16", c.edit)
		if err := os.Remove(filepath.Join(dir, "modules.json")); err != nil {
			t.Fatal(err)
		}
		mustFail(t, dir, convert.Options{}, c.kind, c.wants)
	}
}

// A model whose embeddings are made in another way is refused by that, converted bare,
// and packed when only its tokenizer is given.
func TestOtherPooling(t *testing.T) {
	for _, c := range []struct {
		name, modules, config string
		kind                  error
		wants                 string
	}{
		{"mean", modulesJSON, `{"pooling_mode_mean_tokens":true}`, convert.ErrUnsupported, `pooled by "mean"`},
		{"cls", modulesJSON, `{"pooling_mode":"cls"}`, convert.ErrUnsupported, `pooled by "cls"`},
		{"dense", strings.Replace(modulesJSON, "models.Normalize", "models.Dense", 1), poolingJSON, convert.ErrUnsupported, `pooled by "last, with Dense"`},
		{"no config", modulesJSON, "", convert.ErrSource, "modules.json says that embeddings are made"},
		{"broken", modulesJSON, "{", convert.ErrSource, "1_Pooling/config.json"},
		{"broken list", "{", "", convert.ErrSource, "modules.json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := embedding()
			m.tied = true
			dir := m.hfDir(t, "qwen3", "BF16", func(config map[string]any, _ map[string][]float32) { config["tie_word_embeddings"] = true })
			writeFile(t, filepath.Join(dir, "modules.json"), []byte(c.modules))
			config := filepath.Join(dir, "1_Pooling", "config.json")
			if writeFile(t, config, []byte(c.config)); c.config == "" {
				if err := os.Remove(config); err != nil {
					t.Fatal(err)
				}
			}
			mustFail(t, dir, convert.Options{}, c.kind, c.wants)
			if strings.HasPrefix(c.name, "broken") {
				if _, err := convert.ReadWords(dir); err == nil || !strings.Contains(err.Error(), c.wants) {
					t.Errorf("words: %v, want an error with %q", err, c.wants)
				}
				return
			}
			packRefuses(t, dir, c.kind, c.wants)
			_, r := run(t, dir, convert.Options{Bare: true})
			equal(t, "pooling of a bare file", r.Pooling, "")
		})
	}
	for kind, want := range map[uint32]string{1: `"mean"`, 2: `"cls"`, 7: `"type 7"`} {
		src := embedding().ggufFile(t, "qwen3", "BF16", pools(kind))
		mustFail(t, src, convert.Options{}, convert.ErrUnsupported, want)
		run(t, src, convert.Options{Bare: true})
		packRefuses(t, src, convert.ErrUnsupported, want)
	}
	for _, kind := range []uint32{0, 4} { // none, and a reranker
		dst, r := run(t, miniature.ggufFile(t, "qwen3", "BF16", pools(kind)), convert.Options{})
		_, meta := embedded(t, dst)
		if _, there := meta["pooling"]; there || r.Pooling != "" {
			t.Errorf("pooling type %d: embeddings by %v", kind, meta["pooling"])
		}
	}
}

// packRefuses packs a bare file with the words of another, and demands an error.
func packRefuses(t *testing.T, from string, kind error, want string) {
	t.Helper()
	c := testmodel.Default()
	c.Bare = true
	dir := t.TempDir()
	_, err := convert.Pack(context.Background(), testmodel.Write(t, c), readWords(t, from), filepath.Join(dir, "packed.vqf"), convert.PackOptions{}, nil)
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "--bare") {
		t.Errorf("packed: %v, want %q with %q", err, kind, want)
	}
	empty(t, dir)
}

// Who converts a model of embeddings whose tokenizer sets nothing behind a text is told.
func TestEmbeddingWithoutSuffix(t *testing.T) {
	dir := embedding().hfDir(t, "qwen3", "BF16", nil)
	writeFile(t, filepath.Join(dir, "tokenizer.json"), miniTokenizer(t))
	_, r := run(t, dir, convert.Options{})
	if !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "no token behind a text") }) {
		t.Errorf("notes %q", r.Notes)
	}
}

// Packing keeps how embeddings are made, wherever the words come from.
func TestPackPooling(t *testing.T) {
	c := testmodel.Default()
	c.Bare = true
	bare, m := testmodel.Write(t, c), embedding()
	dir, file := m.hfDir(t, "qwen3", "BF16", nil), m.ggufFile(t, "qwen3", "BF16", pools(3))
	whole, _ := run(t, dir, convert.Options{})
	alone := filepath.Join(t.TempDir(), "words.json")
	writeFile(t, alone, readFile(t, filepath.Join(dir, "tokenizer.json")))
	for from, want := range map[string]string{dir: "last", filepath.Join(dir, "tokenizer.json"): "last", file: "last", whole: "last", alone: ""} {
		out := filepath.Join(t.TempDir(), "packed.vqf")
		r, err := convert.Pack(context.Background(), bare, readWords(t, from), out, convert.PackOptions{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, meta := embedded(t, out)
		got, _ := meta["pooling"].(string)
		if got != want || r.Pooling != want {
			t.Errorf("%s: pooling %q, the report says %q, want %q", from, got, r.Pooling, want)
		}
	}
}
