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

// Whatever the metadata and the files beside a model hold: an answer or an
// error.
func FuzzMeta(f *testing.F) {
	f.Add([]byte(`{"v":1,"eos_id":2,"stop_ids":[2],"generation":{"temperature":0.6,"top_k":20}}`))
	f.Add([]byte(`{"chat_template":[{"name":"default","template":"x"}],"eos_token":{"content":"<|im_end|>"},"add_bos_token":true}`))
	f.Add([]byte(`{"eos_token_id":[1,2],"top_p":0.9}`))
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
