// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"windhover/vqf"
	"windhover/vqf/convert"
)

// FuzzGGUF: whatever the file, converting it ends in an error or in a file
// that loads. Run with -fuzzminimizetime=5x: a run takes milliseconds, and
// shrinking each find would take all the time there is.
func FuzzGGUF(f *testing.F) {
	m := miniature
	f.Add(readFile(f, m.ggufFile(f, "qwen3", "BF16", nil)))
	f.Add(readFile(f, m.ggufFile(f, "qwen3vl", "Q8_0", nil)))
	f.Add(readFile(f, mixture.ggufFile(f, "qwen3moe", "BF16", nil)))
	m.embeds = true
	f.Add(readFile(f, m.ggufFile(f, "qwen3", "BF16", func(g *ggufWriter, _ map[string][]float32) { g.set("qwen3.pooling_type", uint32(3)) })))
	m.embeds = false
	m.qnorm, m.tied = false, true
	f.Add(readFile(f, m.ggufFile(f, "llama", "Q4_0", nil)))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		src := filepath.Join(dir, "x.gguf")
		writeFile(t, src, b)
		convertOrRefuse(t, src, filepath.Join(dir, "x.vqf"), convert.Options{})
	})
}

// FuzzProjector: the same for the projector file of a model that sees.
func FuzzProjector(f *testing.F) {
	text := seeing.ggufFile(f, "qwen3vl", "BF16", nil)
	f.Add(readFile(f, seeing.tower.mmprojFile(f, "BF16", nil, nil)))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		mmproj := filepath.Join(dir, "mmproj.gguf")
		writeFile(t, mmproj, b)
		convertOrRefuse(t, text, filepath.Join(dir, "x.vqf"), convert.Options{Mmproj: mmproj})
	})
}

// FuzzConfig: the same for the config.json of a directory.
func FuzzConfig(f *testing.F) {
	dir := miniature.hfDir(f, "qwen3", "BF16", nil)
	weights := readFile(f, filepath.Join(dir, "model.safetensors"))
	f.Add(readFile(f, filepath.Join(dir, "config.json")))
	for _, more := range []map[string]any{
		{"text_config": map[string]any{"hidden_size": 32}, "model_type": "qwen3_vl", "vision_config": map[string]any{"depth": 1, "deepstack_visual_indexes": []int{0}}},
		{"rope_scaling": map[string]any{"rope_type": "default", "mrope_section": []int{8, 4, 4}}, "head_dim": 0, "num_key_value_heads": 0},
	} {
		c := miniature.config("qwen3")
		for k, v := range more {
			c[k] = v
		}
		b, err := json.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	fuzzConfig(f, weights)
}

// FuzzConfigExperts: the same for a mixture of experts.
func FuzzConfigExperts(f *testing.F) {
	dir := mixture.hfDir(f, "qwen3_moe", "BF16", nil)
	f.Add(readFile(f, filepath.Join(dir, "config.json")))
	fuzzConfig(f, readFile(f, filepath.Join(dir, "model.safetensors")))
}

// FuzzConfigVision: the same for a model with a vision tower.
func FuzzConfigVision(f *testing.F) {
	dir := seeing.hfDir(f, "qwen3_vl", "BF16", nil)
	f.Add(readFile(f, filepath.Join(dir, "config.json")))
	fuzzConfig(f, readFile(f, filepath.Join(dir, "model.safetensors")))
}

func fuzzConfig(f *testing.F, weights []byte) {
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, "config.json"), b)
		writeFile(t, filepath.Join(dir, "model.safetensors"), weights)
		convertOrRefuse(t, dir, filepath.Join(dir, "x.vqf"), convert.Options{})
	})
}

func convertOrRefuse(t *testing.T, src, dst string, opt convert.Options) {
	t.Helper()
	opt.Threads = 1
	if _, err := convert.Run(context.Background(), src, dst, opt, nil); err != nil {
		if _, err := os.Stat(dst); err == nil {
			t.Fatal("there is a file after the error")
		}
		return
	}
	f, err := vqf.Open(dst, vqf.OpenOptions{FullCheck: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
