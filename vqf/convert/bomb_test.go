// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"windhover/vqf/convert"
)

// TestBombs puts files into a Hugging Face directory that are made to take memory or
// the stack of who reads them: each ends in an error that names it, within 64 MB.
func TestBombs(t *testing.T) {
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	for _, c := range []struct{ name, file, text, want string }{
		{"deep", "config.json", strings.Repeat(`{"a":`, 100_000), "config.json"},
		{"deep arrays", "config.json", strings.Repeat("[", 4<<20), "config.json"},
		{"keys", "config.json", "{" + many(200_000, `"k%d":1,`) + "}", "model_type"},
		{"a million keys", "config.json", "{" + many(1_000_000, `"k%d":1,`) + "}", "at most"},
		{"long number", "config.json", `{"model_type":"qwen3","architectures":["Qwen3ForCausalLM"],"hidden_size":` + strings.Repeat("9", 1<<20) + "}", "hidden_size"},
		{"huge number", "config.json", `{"model_type":"qwen3","architectures":["Qwen3ForCausalLM"],"hidden_size":1e999}`, "hidden_size"},
		{"layer types", "config.json", `{"model_type":"qwen3","architectures":["Qwen3ForCausalLM"],"layer_types":[` + many(400_000, `"a%d",`) + "]}", "config.json"},
		{"end tokens", "generation_config.json", `{"eos_token_id":[` + many(300_000, "%d,") + "]}", "token ids"},
		{"a million end tokens", "generation_config.json", `{"eos_token_id":[` + many(1_000_000, "%d,") + "]}", "at most"},
		{"deep generation", "generation_config.json", strings.Repeat(`{"a":`, 100_000), "generation_config.json"},
		{"deep tokenizer", "tokenizer.json", strings.Repeat("[", 4<<20), "tokenizer.json"},
		{"added tokens", "tokenizer.json", `{"version":"1.0","added_tokens":[` + many(1_000_000, `{"id":%d,"content":"x"},`) + "]}", "tokenizer.json"},
		{"vocabulary", "tokenizer.json", `{"version":"1.0","model":{"type":"BPE","vocab":{` + many(500_000, `"k%d":1,`) + "}}}", "tokenizer.json"},
		{"tokenizer config", "tokenizer_config.json", `{"chat_template":` + strings.Repeat("[", 2<<20), "tokenizer_config.json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := miniature.hfDir(t, "qwen3", "F32", nil)
			writeFile(t, filepath.Join(dir, "tokenizer.json"), miniTokenizer(t))
			writeFile(t, filepath.Join(dir, c.file), []byte(c.text))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := convert.Run(t.Context(), dir, filepath.Join(t.TempDir(), "out.vqf"), convert.Options{}, nil)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 1000 {
				t.Errorf("got %.300v, want a line with %q", err, c.want)
			}
			took := after.TotalAlloc - before.TotalAlloc
			if t.Logf("%.1f MB", float64(took)/1e6); took > 64<<20 {
				t.Errorf("took %d bytes", took)
			}
		})
	}
}
