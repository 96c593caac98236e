// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"

	"windhover/vqf"
	"windhover/vqf/gguf"
	"windhover/vqf/safetensors"
)

// small is a shape whose files take no time.
var small = shape{dim: 64, layers: 2, heads: 2, kv: 1, hd: 32, ff: 96, vocab: 512, tied: true}

// spread is the mean and the deviation of values.
func spread(x []float32) (mean, dev float64) {
	for _, v := range x {
		mean += float64(v) / float64(len(x))
	}
	for _, v := range x {
		dev += (float64(v) - mean) * (float64(v) - mean) / float64(len(x))
	}
	return mean, math.Sqrt(dev)
}

// trained fails where values have not the deviation of trained weights. Their mean is
// not quite 0: four-bit codes go from -8 to 7.
func trained(t *testing.T, what string, x []float32) {
	t.Helper()
	if mean, dev := spread(x); math.Abs(mean) > deviation/8 || math.Abs(dev/deviation-1) > 0.1 {
		t.Errorf("%s: mean %.4f, deviation %.4f, want about 0 and %v", what, mean, dev, deviation)
	}
}

func TestHuggingFace(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir, small, 1); err != nil {
		t.Fatal(err)
	}
	m, err := safetensors.Open(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if got, want := len(m.Tensors()), len(small.tensors()); got != want {
		t.Errorf("%d tensors, want %d", got, want)
	}
	e, ok := m.Tensor("model.embed_tokens.weight")
	if !ok {
		t.Fatal("no embedding")
	}
	x := make([]float32, small.vocab*small.dim)
	if err := m.ReadFloats(x, e, 0); err != nil {
		t.Fatal(err)
	}
	trained(t, "embedding", x)
}

func TestGGUF(t *testing.T) {
	for name, typ := range blockTypes {
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := writeGGUF(path, "small", small, typ, 1); err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		down, ok := f.Tensor("blk.1.ffn_down.weight")
		if !ok {
			t.Fatalf("%s: no blk.1.ffn_down.weight", name)
		}
		x := make([]float32, small.ff*small.dim)
		if err := f.ReadFloats(x, down, 0); err != nil {
			t.Fatal(err)
		}
		trained(t, name, x)
	}
}

// A model of embeddings is stored without "model.", says how it makes them, and ends a
// text with a token.
func TestEmbeds(t *testing.T) {
	s := small
	s.embeds = true
	dir := t.TempDir()
	if err := write(dir, s, 1); err != nil {
		t.Fatal(err)
	}
	m, err := safetensors.Open(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, name := range []string{"embed_tokens.weight", "layers.1.mlp.down_proj.weight", "norm.weight"} {
		if _, ok := m.Tensor(name); !ok {
			t.Errorf("no tensor %q", name)
		}
	}
	for name, want := range map[string]string{"modules.json": "1_Pooling", "1_Pooling/config.json": "pooling_mode_lasttoken", "tokenizer.json": "TemplateProcessing"} {
		if b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name))); err != nil || !bytes.Contains(b, []byte(want)) {
			t.Errorf("%s: %.80s, %v, want %q in it", name, b, err, want)
		}
	}
	path := filepath.Join(t.TempDir(), "m.vqf")
	if err := writeVQF(path, s, vqf.ModeQ8, 1); err != nil {
		t.Fatal(err)
	}
	f, err := vqf.Open(path, vqf.OpenOptions{FullCheck: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !bytes.Contains(f.Meta(), []byte(`"pooling":"last"`)) || !bytes.Contains(f.Tokenizer(), []byte("TemplateProcessing")) {
		t.Errorf("metadata %s, tokenizer %.80s", f.Meta(), f.Tokenizer())
	}
}

// A VQF file passes every check there is, in each mode, and is the same each time.
func TestVQF(t *testing.T) {
	mixture := small
	mixture.experts, mixture.top, mixture.expertFF, mixture.ff = 4, 2, 32, 4*32
	for name, s := range map[string]shape{"dense": small, "mixture": mixture} {
		for _, mode := range []vqf.Mode{vqf.ModeQ4, vqf.ModeQ8, vqf.ModeDual} {
			var files [2][]byte
			for i := range files {
				path := filepath.Join(t.TempDir(), "m.vqf")
				if err := writeVQF(path, s, mode, 1); err != nil {
					t.Fatal(err)
				}
				f, err := vqf.Open(path, vqf.OpenOptions{FullCheck: true})
				if err != nil {
					t.Fatalf("%s, %s: %v", name, mode, err)
				}
				if got := f.Arch(); got.NExperts != uint32(s.experts) || got.VocabSize != uint32(s.vocab) {
					t.Errorf("%s, %s: %+v", name, mode, got)
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
				if files[i], err = os.ReadFile(path); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(files[0], files[1]) {
				t.Errorf("%s, %s: two files of one seed differ", name, mode)
			}
		}
	}
}
