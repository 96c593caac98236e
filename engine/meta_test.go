// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A list of end tokens that every token would be compared with has an end.
func TestStopIDsBounded(t *testing.T) {
	for n, good := range map[int]bool{maxStopIDs: true, maxStopIDs + 1: false} {
		ids := "[1" + strings.Repeat(",1", n-1) + "]"
		_, err := parseMeta([]byte(`{"stop_ids":` + ids + `}`))
		if good != (err == nil) || err != nil && !strings.Contains(err.Error(), "stop_ids") {
			t.Errorf("t_meta with %d: %v", n, err)
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "generation_config.json"), []byte(`{"eos_token_id":`+ids+`}`), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err = metaBeside(dir, nil)
		if good != (err == nil) || err != nil && !(strings.Contains(err.Error(), "eos_token_id") && strings.Contains(err.Error(), "generation_config.json")) {
			t.Errorf("generation_config.json with %d: %v", n, err)
		}
	}
}

// How a bare file's model makes embeddings is said by the files beside it; what this
// engine does not make is carried by its name.
func TestPoolingBeside(t *testing.T) {
	const modules = `[{"path":"","type":"sentence_transformers.models.Transformer"},{"path":"1_Pooling","type":"sentence_transformers.models.Pooling"}]`
	for _, c := range []struct{ modules, config, want string }{
		{"", "", ""},
		{modules, `{"pooling_mode_lasttoken":true}`, "last"},
		{modules, `{"pooling_mode_mean_tokens":true}`, "mean"},
		{modules, "", "unknown"},
	} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "1_Pooling"), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"modules.json": c.modules, filepath.Join("1_Pooling", "config.json"): c.config} {
			if text == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		m, err := metaBeside(dir, nil)
		if err != nil || m.Pooling != c.want {
			t.Errorf("modules %q, config %q: %+v, %v, want %q", c.modules, c.config, m, err, c.want)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "modules.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := metaBeside(dir, nil); err == nil || !strings.Contains(err.Error(), "modules.json") {
		t.Errorf("a modules.json that is no list: %v", err)
	}
	m, err := parseMeta([]byte(`{"pooling":"attention"}`))
	if err != nil || m.Pooling != "attention" {
		t.Errorf("a pooling of a newer converter: %+v, %v", m, err)
	}
}

// Whatever the metadata and the files beside a model hold: an answer or an
// error.
func FuzzMeta(f *testing.F) {
	f.Add([]byte(`{"v":1,"eos_id":2,"stop_ids":[2],"generation":{"temperature":0.6,"top_k":20}}`))
	f.Add([]byte(`{"chat_template":[{"name":"default","template":"x"}],"eos_token":{"content":"<|im_end|>"},"add_bos_token":true}`))
	f.Add([]byte(`{"eos_token_id":[1,2],"top_p":0.9,"pooling":"last","pooling_mode":"lasttoken"}`))
	f.Add([]byte(`{"eos_token_id":null,"bos_token":null,"chat_template":null}`))
	tok := testTokenizer(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := parseMeta(data); (m == nil) == (err == nil) {
			t.Errorf("t_meta: %v, %v", m, err)
		}
		dir := t.TempDir()
		for _, name := range []string{"tokenizer_config.json", "generation_config.json", "chat_template.jinja"} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		m, err := metaBeside(dir, tok)
		if (m == nil) == (err == nil) {
			t.Errorf("beside: %v, %v", m, err)
		}
		if err == nil && m.ChatTemplate != string(data) {
			t.Errorf("chat_template.jinja is not what counts: %q", m.ChatTemplate)
		}
	})
}
