// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windhover/kernels"
	"windhover/vqf"
	"windhover/vqf/convert"
	"windhover/vqf/gguf"
)

// shared returns a path in the goldens beside the module, and skips without
// them.
func shared(t testing.TB, path string) string {
	t.Helper()
	root := filepath.FromSlash("../../../shared/golden")
	if _, err := os.Stat(root); err != nil {
		t.Skip("no ../shared/golden beside the module")
	}
	return filepath.Join(root, filepath.FromSlash(path))
}

var allModes = []string{"q4", "q8", "dual", "q4i", "g256"}

// Each model converts from its directory and from the lossless GGUF file to
// the same tensors, in any mode.
func TestSharedLosslessPairs(t *testing.T) {
	for _, c := range []struct {
		file, dir string
		modes     []string
		except    []string
	}{
		{"gguf/qwen3-tiny/qwen3-tiny-BF16.gguf", "models/qwen3-tiny", allModes, nil},
		{"gguf/llama-tiny/llama-tiny-F32.gguf", "models/llama-tiny", allModes, nil},
		{"gguf/qwen3-tiny-untied/qwen3-tiny-untied-F16.gguf", "models/qwen3-tiny-untied", allModes, nil},
		{"gguf/qwen3-tiny/qwen3-tiny-Q4_0-embBF16.gguf", "models/qwen3-tiny", []string{"q4"}, nil},
		{"gguf/qwen3-tiny/qwen3-tiny-Q8_0.gguf", "models/qwen3-tiny", []string{"q8"}, []string{"token_embed"}},
		{"gguf/llama-tiny/llama-tiny-Q8_0.gguf", "models/llama-tiny", []string{"q8"}, []string{"token_embed"}},
		{"gguf/qwen3-tiny/qwen3-tiny-Q4_0.gguf", "models/qwen3-tiny", []string{"q4"}, []string{"token_embed", "q4_lm"}},
		{"gguf/qwen3vl-tiny/qwen3vl-tiny-Q8_0.gguf", "models/qwen3vl-tiny", []string{"q8"}, []string{"token_embed"}},
	} {
		for _, mode := range c.modes {
			t.Run(filepath.Base(c.file)+" "+mode, func(t *testing.T) {
				a, _ := run(t, shared(t, c.file), convert.Options{Mode: mode})
				b, _ := run(t, shared(t, c.dir), convert.Options{Mode: mode, TextOnly: true})
				sameTensors(t, a, b, c.except...)
			})
		}
	}
}

// Three shards and the newer style of config.json give the same bytes.
func TestSharedSharded(t *testing.T) {
	for _, mode := range allModes {
		one, _ := run(t, shared(t, "models/qwen3-tiny"), convert.Options{Mode: mode, Bare: true})
		three, r := run(t, shared(t, "models/qwen3-tiny-sharded"), convert.Options{Mode: mode, Bare: true})
		if !bytes.Equal(readFile(t, one), readFile(t, three)) {
			t.Errorf("%s: other bytes", mode)
		}
		if !strings.Contains(r.Format, "3 safetensors files") {
			t.Errorf("format: %s", r.Format)
		}
	}
}

// Q8_0 blocks of a llama.cpp file are the q8 blocks of ours, bit for bit.
func TestSharedBlocksKept(t *testing.T) {
	path := shared(t, "gguf/qwen3-tiny/qwen3-tiny-Q8_0.gguf")
	raw := readFile(t, path)
	g, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	dst, _ := run(t, path, convert.Options{Mode: "q8", Q8Layout: "row"})
	arch, got := tensorBytes(t, dst)
	for name, source := range map[string]string{"q8_q": "attn_q", "q8_k": "attn_k", "q8_v": "attn_v", "q8_o": "attn_output", "q8_gate": "ffn_gate", "q8_up": "ffn_up", "q8_down": "ffn_down"} {
		var want []byte
		for l := range arch.NLayers {
			w, ok := g.Tensor("blk." + string(rune('0'+l)) + "." + source + ".weight")
			if !ok || w.Type != gguf.Q8_0 {
				t.Fatalf("layer %d has no Q8_0 %s", l, source)
			}
			want = append(want, raw[w.Offset:w.Offset+w.Bytes]...)
		}
		if !bytes.Equal(got[name], want) {
			t.Errorf("%s: blocks are not the file's", name)
		}
	}
}

// All layouts of a family hold the same blocks.
func TestSharedLayouts(t *testing.T) {
	src := shared(t, "models/qwen3-tiny")
	row, _ := run(t, src, convert.Options{Mode: "q8", Q8Layout: "row"})
	_, want := tensorBytes(t, row)
	for word, layout := range map[string]kernels.Layout{"8x8": kernels.Q8x8, "4x4": kernels.Q8x4} {
		dst, _ := run(t, src, convert.Options{Mode: "q8", Q8Layout: word})
		arch, got := tensorBytes(t, dst)
		for name, b := range got {
			if !strings.HasPrefix(name, "q8_") {
				continue
			}
			s, _ := arch.Shape(name)
			plain := make([]byte, len(b))
			size := len(b) / s.Parts
			for l := range s.Parts {
				kernels.Unpack(plain[l*size:][:size], b[l*size:][:size], s.Rows, s.Cols, layout)
			}
			if !bytes.Equal(plain, want[name]) {
				t.Errorf("%s in %s holds other blocks", name, word)
			}
		}
	}
}

// Every readable GGUF file converts; those of other architectures do not.
func TestSharedEveryFile(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(shared(t, "gguf"), "*", "*.gguf"))
	if err != nil || len(files) < 50 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, path := range files {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			switch {
			case strings.Contains(path, "reject"):
				g, err := gguf.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				defer g.Close()
				for _, w := range g.Tensors() {
					if !w.Type.Readable() {
						mustFail(t, path, convert.Options{}, convert.ErrUnsupported, `tensor "`+w.Name+`" has type `+w.Type.String())
						return
					}
				}
				t.Error("every tensor is readable")
			case strings.HasPrefix(name, "mmproj"):
				mustFail(t, path, convert.Options{}, convert.ErrUnsupported, "vision projector")
			default:
				_, r := run(t, path, convert.Options{})
				if r.Mode != vqf.ModeQ8 || !r.Embedded {
					t.Errorf("mode %s, embedded %v", r.Mode, r.Embedded)
				}
			}
		})
	}
}

// The header of the two routes, and what the metadata says.
func TestSharedMeta(t *testing.T) {
	dir := shared(t, "models/qwen3-tiny")
	hf, _ := run(t, dir, convert.Options{})
	g, _ := run(t, shared(t, "gguf/qwen3-tiny/qwen3-tiny-BF16.gguf"), convert.Options{})
	tok, a := embedded(t, hf)
	if !bytes.Equal(tok, readFile(t, filepath.Join(dir, "tokenizer.json"))) {
		t.Error("tokenizer.json is not embedded as it is")
	}
	_, b := embedded(t, g)
	for _, key := range []string{"architecture", "chat_template", "eos_token", "eos_id", "stop_ids", "generation", "mode", "q8_layout", "tied", "params", "context_length"} {
		equal(t, key, b[key], a[key])
	}
	equal(t, "stop_ids", a["stop_ids"], []any{568.0, 566.0})
	equal(t, "context_length", a["context_length"], 40960.0)
	equal(t, "generation", a["generation"], map[string]any{"temperature": 0.6, "top_p": 0.95, "top_k": 20.0})
	equal(t, "bos_id", a["bos_id"], -1.0) // tokenizer_config.json has null
	archA, _ := tensorBytes(t, hf)
	archB, _ := tensorBytes(t, g)
	archB.HasMRope, archB.MRopeNSec, archB.MRopeSections = 0, 0, [4]int32{} // as the tables differ
	equal(t, "arch", archB, archA)
}

// The text part of qwen3vl: the header keeps what the source says about its
// vision tower, the flag and the tensors are not there.
func TestSharedVisionText(t *testing.T) {
	dst, r := run(t, shared(t, "models/qwen3vl-tiny"), convert.Options{Mode: "dual", TextOnly: true})
	a := r.Arch
	equal(t, "arch", []uint32{a.HasQNorm, a.HasMRope, a.MRopeNSec, a.HasVision, a.VisDepth, a.VisHidden, a.VisHeads, a.VisFFN, a.VisPatch, a.VisTemporal,
		a.VisMerge, a.VisOutDim, a.VisInChan, a.VisMaxPos, a.VisDSCount, a.VisionStartID, a.VisionEndID, a.ImageTokenID, a.VideoTokenID, a.MaxSeqLen},
		[]uint32{1, 1, 3, 1, 4, 64, 4, 96, 16, 2, 2, 128, 3, 36, 3, 575, 576, 578, 579, 8192})
	equal(t, "sections", a.MRopeSections, [4]int32{6, 5, 5, 0})
	equal(t, "deepstack", a.VisDSIdx, [4]int32{0, 2, 3, 0})
	equal(t, "flags", r.Flags, vqf.FlagQ8x8|vqf.FlagQ4x4|vqf.FlagEmbF16)
	if text := r.String(); !strings.Contains(text, "text only: no vision tensors") || !strings.Contains(text, "vision tower is left out") {
		t.Errorf("the report does not say that vision is left out:\n%s", text)
	}
	_, meta := embedded(t, dst)
	equal(t, "special_ids", meta["special_ids"].(map[string]any)["image_pad"], 578.0)
	_, r = run(t, shared(t, "gguf/qwen3vl-tiny/qwen3vl-tiny-Q8_0.gguf"), convert.Options{})
	equal(t, "gguf sections", r.Arch.MRopeSections, [4]int32{6, 5, 5, 0})
	if text := r.String(); !strings.Contains(text, "text only: no vision tensors") || !strings.Contains(text, "--mmproj") {
		t.Errorf("the report does not say how to convert the vision tower:\n%s", text)
	}
	equal(t, "gguf vision", []uint32{r.Arch.HasVision, r.Arch.ImageTokenID, r.Arch.MRopeNSec}, []uint32{0, 0, 3})
}

// Every matrix of every golden model is quantised as the goldens' own
// quantiser does: the error report stays within what Q8_0 and Q4_0 cost.
func TestSharedErrors(t *testing.T) {
	for _, dir := range []string{"qwen3-tiny", "qwen3-tiny-untied", "llama-tiny", "qwen3moe-tiny", "qwen3vl-tiny"} {
		_, r := run(t, shared(t, "models/"+dir), convert.Options{Mode: "dual"})
		for name, e := range r.Errors {
			lo, hi := 0.003, 0.008
			if strings.HasPrefix(name, "q4_") {
				lo, hi = 0.05, 0.13
			}
			if e < lo || e > hi {
				t.Errorf("%s: %s: relative error %g, want %g to %g", dir, name, e, lo, hi)
			}
		}
		b, err := json.Marshal(r)
		if err != nil || !bytes.Contains(b, []byte(`"q8_q"`)) {
			t.Errorf("report as JSON: %s, %v", b, err)
		}
	}
}
