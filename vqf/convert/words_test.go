// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"reflect"
	"testing"

	"windhover/engine/tokenizer"
	"windhover/vqf"
	"windhover/vqf/convert"
)

// embedded returns the tokenizer and the metadata of a file.
func embedded(t *testing.T, path string) (tok []byte, meta map[string]any) {
	t.Helper()
	f, err := vqf.Open(path, vqf.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := json.Unmarshal(f.Meta(), &meta); err != nil {
		t.Fatalf("t_meta: %v", err)
	}
	return f.Tokenizer(), meta
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %v (%T), want %v (%T)", what, got, got, want, want)
	}
}

func miniTokenizer(t *testing.T) []byte {
	t.Helper()
	tokens, types := miniTokens(miniature.vocab)
	b, err := tokenizer.GGUFToJSON(tokenizer.GGUFVocab{Model: "gpt2", Pre: "qwen2", Tokens: tokens, Types: types, BosID: -1, EosID: -1, PadID: -1})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestMetaFromDirectory(t *testing.T) {
	src := miniature.hfDir(t, "qwen3", "F32", func(c map[string]any, _ map[string][]float32) { c["_name_or_path"] = "/home/someone/Mini" })
	want := append(miniTokenizer(t), "\n  "...) // verbatim, whatever its white space
	writeFile(t, filepath.Join(src, "tokenizer.json"), want)
	writeJSON(t, filepath.Join(src, "tokenizer_config.json"), map[string]any{
		"chat_template": "{% for m in messages %}<b>&{{ m.content }}{% endfor %}é", "bos_token": nil, "add_bos_token": false,
		"eos_token": map[string]any{"content": "<|im_end|>"}, "pad_token": "<|endoftext|>",
	})
	writeJSON(t, filepath.Join(src, "generation_config.json"), map[string]any{
		"eos_token_id": []int{2, 1}, "temperature": 0.6, "top_p": 0.95, "top_k": 20, "repetition_penalty": 1.05, "do_sample": true,
	})
	dst, r := run(t, src, convert.Options{Converter: "windhover 9.9", Mode: "dual"})
	tok, meta := embedded(t, dst)
	if !bytes.Equal(tok, want) || !r.Embedded {
		t.Error("tokenizer.json is not embedded as it is")
	}
	for key, v := range map[string]any{
		"v": 1.0, "converter": "windhover 9.9", "name": "Mini", "architecture": "qwen3", "bos_token": "", "eos_token": "<|im_end|>", "add_bos": false,
		"bos_id": -1.0, "eos_id": 2.0, "stop_ids": []any{2.0, 1.0}, "mode": "dual", "quantiser": "B", "q8_layout": "8x8", "q4_layout": "4x4",
		"tied": false, "params": float64(r.Params), "context_length": 1024.0,
		"chat_template": "{% for m in messages %}<b>&{{ m.content }}{% endfor %}é",
		"generation":    map[string]any{"temperature": 0.6, "top_p": 0.95, "top_k": 20.0, "repeat_penalty": 1.05},
		"special_ids":   map[string]any{"pad": 1.0},
	} {
		equal(t, key, meta[key], v)
	}
	var files []string
	for _, s := range meta["sources"].([]any) {
		source := s.(map[string]any)
		name := source["file"].(string)
		b := readFile(t, filepath.Join(src, name))
		equal(t, name+" bytes", source["bytes"], float64(len(b)))
		equal(t, name+" sha256", source["sha256"], sha(b))
		files = append(files, name)
	}
	equal(t, "sources", files, []string{"model.safetensors", "config.json", "tokenizer_config.json", "tokenizer.json", "generation_config.json"})
	errs := meta["errors"].(map[string]any)
	if len(errs) != 16 || errs["q8_q"].(float64) <= 0 || errs["q4_q"].(float64) <= errs["q8_q"].(float64) {
		t.Errorf("errors: %v", errs)
	}

	// A template in a file of its own goes before the one in the configuration.
	writeFile(t, filepath.Join(src, "chat_template.jinja"), []byte("{{ 'own file' }}\n"))
	dst, _ = run(t, src, convert.Options{Name: "given"})
	_, meta = embedded(t, dst)
	equal(t, "chat_template", meta["chat_template"], "{{ 'own file' }}\n")
	equal(t, "name", meta["name"], "given")
}

func TestMetaFromGGUF(t *testing.T) {
	m := miniature
	m.tied = true
	src := m.ggufFile(t, "qwen3", "BF16", func(g *ggufWriter, _ map[string][]float32) {
		g.set("general.name", "Mini")
		g.set("tokenizer.chat_template", "{{ messages[0].content }}")
		g.set("tokenizer.ggml.padding_token_id", uint32(1))
		g.set("tokenizer.ggml.add_bos_token", true)
		g.set("general.sampling.temp", float32(0.7))
		g.set("general.sampling.top_k", []int32(nil)) // of the wrong type: see below
	})
	mustFail(t, src, convert.Options{}, convert.ErrSource, "general.sampling.top_k")
	src = m.ggufFile(t, "qwen3", "BF16", func(g *ggufWriter, _ map[string][]float32) {
		g.set("general.name", "Mini")
		g.set("tokenizer.chat_template", "{{ messages[0].content }}")
		g.set("tokenizer.ggml.padding_token_id", uint32(1))
		g.set("tokenizer.ggml.add_bos_token", true)
		g.set("general.sampling.temp", float32(0.7))
	})
	dst, r := run(t, src, convert.Options{})
	tok, meta := embedded(t, dst)
	if _, err := tokenizer.Parse(tok); err != nil {
		t.Errorf("embedded tokenizer: %v", err)
	}
	for key, v := range map[string]any{
		"converter": "windhover", "name": "Mini", "architecture": "qwen3", "bos_token": "<|endoftext|>", "eos_token": "<|im_end|>", "add_bos": true,
		"bos_id": 1.0, "eos_id": 2.0, "stop_ids": []any{2.0, 1.0}, "mode": "q8", "tied": true, "params": float64(r.Params),
		"chat_template": "{{ messages[0].content }}", "generation": map[string]any{"temperature": 0.7}, "special_ids": map[string]any{"pad": 1.0},
	} {
		equal(t, key, meta[key], v)
	}
	sources := meta["sources"].([]any)
	equal(t, "source", sources[0].(map[string]any)["sha256"], sha(readFile(t, src)))
}

// Header fields as the conversion tables give them, GGUF and directory alike.
func TestHeaderFields(t *testing.T) {
	_, r := run(t, miniature.hfDir(t, "qwen3", "F32", func(c map[string]any, _ map[string][]float32) { c["bos_token_id"] = nil }), convert.Options{})
	a := r.Arch
	equal(t, "directory", []uint32{a.BosID, a.EosID, a.HasQNorm, a.HasMRope, a.MRopeNSec, a.HeadDimFull, a.MaxSeqLen}, []uint32{0, 2, 1, 0, 0, 32, 1024})
	_, r = run(t, miniature.ggufFile(t, "qwen3", "F32", nil), convert.Options{})
	a = r.Arch
	equal(t, "gguf", []uint32{a.BosID, a.EosID, a.HasQNorm, a.HasMRope, a.MRopeNSec, a.HeadDimFull, a.MaxSeqLen}, []uint32{1, 2, 1, 1, 3, 32, 1024})
	equal(t, "gguf sections", a.MRopeSections, [4]int32{24, 20, 20, 0})
	m := miniature
	m.qnorm = false
	_, r = run(t, m.ggufFile(t, "llama", "F32", nil), convert.Options{})
	a = r.Arch
	equal(t, "llama", []uint32{a.HasQNorm, a.HasMRope, a.MRopeNSec}, []uint32{0, 0, 0})
	equal(t, "tensors", r.Tensors, 14)
}
