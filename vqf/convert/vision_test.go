// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"windhover/kernels"
	"windhover/vqf"
	"windhover/vqf/convert"
	"windhover/vqf/safetensors"
)

// seeing is a mini with a tower whose feed-forward width is no multiple of 32.
var seeing = mini{dim: 64, layers: 2, heads: 4, kv: 2, hd: 32, ff: 96, vocab: 48, qnorm: true,
	tower: &miniTower{depth: 3, hidden: 32, heads: 2, ff: 50, patch: 4, temporal: 2, merge: 2, out: 64, positions: 9, deepstack: []int{0, 2}}}

// A directory, and a GGUF file with its projector, hold the same weights and
// give the same file, header included.
func TestVisionLossless(t *testing.T) {
	flat := seeing
	tower := *seeing.tower
	tower.deepstack = []int{}
	flat.tower = &tower
	for name, m := range map[string]mini{"deepstack": seeing, "none": flat} {
		hf := m.hfDir(t, "qwen3_vl", "BF16", nil)
		for _, typ := range []string{"F32", "F16", "BF16"} {
			text, mmproj := m.ggufFile(t, "qwen3vl", typ, nil), m.tower.mmprojFile(t, typ, nil, nil)
			for _, mode := range allModes {
				a, r := run(t, hf, convert.Options{Mode: mode, Bare: true, Threads: 3, Chunk: 8})
				b, s := run(t, text, convert.Options{Mode: mode, Bare: true, Mmproj: mmproj})
				if !bytes.Equal(readFile(t, a), readFile(t, b)) {
					sameTensors(t, a, b)
					t.Errorf("%s %s %s: other bytes, headers\n%+v\n%+v", name, typ, mode, r.Arch, s.Arch)
				}
				if r.Params != s.Params || r.VisionParams != s.VisionParams || r.VisionParams == 0 {
					t.Errorf("%s: %d and %d parameters, %d and %d of vision", name, r.Params, s.Params, r.VisionParams, s.VisionParams)
				}
				report, err := vqf.Verify(context.Background(), b, vqf.VerifyOptions{}, nil)
				if err != nil || !report.OK() {
					t.Errorf("%s %s %s: verify: %+v, %v", name, typ, mode, report, err)
				}
			}
		}
	}
}

// A mixture of experts may see, too.
func TestVisionExperts(t *testing.T) {
	m := mixture
	m.tower = seeing.tower
	dst, r := run(t, m.ggufFile(t, "qwen3vlmoe", "BF16", nil), convert.Options{Mode: "q4", Bare: true, Mmproj: m.tower.mmprojFile(t, "BF16", nil, nil)})
	equal(t, "flags", r.Flags, vqf.FlagQ8x8|vqf.FlagQ4x4|vqf.FlagEmbF16|vqf.FlagVision|vqf.FlagMoE)
	equal(t, "experts, mrope", []uint32{r.Arch.NExperts, r.Arch.HasMRope, r.Arch.ImageTokenID}, []uint32{5, 1, 5})
	text, _ := run(t, mixture.ggufFile(t, "qwen3moe", "BF16", nil), convert.Options{Mode: "q4"})
	sight, _ := run(t, seeing.hfDir(t, "qwen3_vl", "BF16", nil), convert.Options{Mode: "q4"})
	_, got := tensorBytes(t, dst)
	_, want := tensorBytes(t, text)
	_, vision := tensorBytes(t, sight)
	for name, b := range vision {
		if strings.HasPrefix(name, "v_") {
			want[name] = b
		}
	}
	if len(got) != len(want) || len(want) != 15+27 {
		t.Errorf("%d tensors, want %d", len(got), len(want))
	}
	for name, b := range want {
		if !bytes.Equal(got[name], b) {
			t.Errorf("%s is not that of the parts", name)
		}
	}
}

// What is in the 27 tensors: matrices as row-major Q8_0 in every mode and
// layout, rows of fc2 padded, all else as the source has it.
func TestVisionTensors(t *testing.T) {
	v := seeing.tower
	src := seeing.hfDir(t, "qwen3_vl", "BF16", nil)
	want := map[string][]byte{}
	for _, w := range v.weights() {
		name := strings.TrimPrefix(w.name, "model.visual.")
		block := strings.HasPrefix(name, "blocks.")
		if block {
			name = name[strings.Index(name[7:], ".")+8:]
		}
		name, ds := strings.CutPrefix(name, "deepstack_merger_list.")
		if ds {
			name = "ds" + name[strings.Index(name, "."):]
		}
		key := map[string]string{
			"attn.qkv.weight": "v_q8_qkv", "attn.proj.weight": "v_q8_proj", "mlp.linear_fc1.weight": "v_q8_fc1", "mlp.linear_fc2.weight": "v_q8_fc2",
			"patch_embed.proj.weight": "v_patch_embed", "patch_embed.proj.bias": "v_patch_bias", "pos_embed.weight": "v_pos_embed",
			"attn.qkv.bias": "v_qkv_bias", "attn.proj.bias": "v_proj_bias", "norm1.weight": "v_norm1_w", "norm1.bias": "v_norm1_b",
			"norm2.weight": "v_norm2_w", "norm2.bias": "v_norm2_b", "mlp.linear_fc1.bias": "v_fc1_bias", "mlp.linear_fc2.bias": "v_fc2_bias",
			"merger.norm.weight": "v_merger_nw", "merger.norm.bias": "v_merger_nb", "merger.linear_fc1.weight": "v_merger_f1w", "merger.linear_fc1.bias": "v_merger_f1b",
			"merger.linear_fc2.weight": "v_merger_f2w", "merger.linear_fc2.bias": "v_merger_f2b", "ds.norm.weight": "v_ds_nw", "ds.norm.bias": "v_ds_nb",
			"ds.linear_fc1.weight": "v_ds_f1w", "ds.linear_fc1.bias": "v_ds_f1b", "ds.linear_fc2.weight": "v_ds_f2w", "ds.linear_fc2.bias": "v_ds_f2b",
		}[name]
		if key == "" {
			t.Fatalf("no tensor for %q (%q)", w.name, name)
		}
		x := w.values()
		if !strings.HasPrefix(key, "v_q8_") {
			want[key] = append(want[key], encode("F32", x)...)
			continue
		}
		if key == "v_q8_fc2" {
			padded := make([]float32, 0, w.rows*64)
			for r := range w.rows {
				padded = append(append(padded, x[r*50:(r+1)*50]...), make([]float32, 14)...)
			}
			x = padded
		}
		want[key] = append(want[key], encode("Q8_0", x)...)
	}
	if len(want) != 27 {
		t.Fatalf("%d tensors", len(want))
	}
	for _, c := range []struct{ mode, word string }{{"q4", ""}, {"q8", "8x8"}, {"q8", "4x4"}, {"dual", "row"}, {"q4i", ""}, {"g256", "8x8"}} {
		dst, r := run(t, src, convert.Options{Mode: c.mode, Q8Layout: c.word})
		arch, got := tensorBytes(t, dst)
		for name, b := range want {
			if !bytes.Equal(got[name], b) {
				t.Errorf("%s %s: %s is not the source's", c.mode, c.word, name)
			}
		}
		if r.Flags&vqf.FlagVision == 0 || strings.Contains(r.String(), "text only") || !strings.Contains(r.String(), "vision     3 blocks of width 32") {
			t.Errorf("%s: flags %s, report\n%s", c.mode, r.Flags, r)
		}
		for _, name := range []string{"v_q8_qkv", "v_q8_proj", "v_q8_fc1", "v_q8_fc2"} {
			if e := r.Errors[name]; !(e > 0 && e < 0.01) {
				t.Errorf("%s: %s: error %g", c.mode, name, e)
			}
		}
		equal(t, "ids", []uint32{arch.VisionStartID, arch.VisionEndID, arch.ImageTokenID, arch.VideoTokenID}, []uint32{3, 4, 5, 6})
	}
}

// The tower may be left out, may not be there, and may be in a file that was
// not given: the text tensors are the same, and the report says which it is.
func TestVisionLeftOut(t *testing.T) {
	hf := seeing.hfDir(t, "qwen3_vl", "BF16", nil)
	blind := seeing.hfDir(t, "qwen3_vl", "BF16", func(_ map[string]any, v map[string][]float32) {
		maps.DeleteFunc(v, func(name string, _ []float32) bool { return strings.HasPrefix(name, "model.visual.") })
	})
	for _, c := range []struct {
		name, src string
		opt       convert.Options
		say       string
		described uint32
	}{
		{"asked for", hf, convert.Options{TextOnly: true}, "as asked for", 1},
		{"not there", blind, convert.Options{}, "no vision tensors: the tower", 1},
		{"not given", seeing.ggufFile(t, "qwen3vl", "BF16", nil), convert.Options{}, "--mmproj FILE", 0},
	} {
		c.opt.Mode = "q4"
		whole, _ := run(t, hf, convert.Options{Mode: "q4"})
		dst, r := run(t, c.src, c.opt)
		if notes := strings.Join(r.Notes, "; "); !strings.Contains(notes, c.say) || !strings.Contains(r.String(), "text only: no vision tensors\n") {
			t.Errorf("%s: %q, want %q in\n%s", c.name, notes, c.say, r)
		}
		if r.Flags&vqf.FlagVision != 0 || r.Arch.HasVision != c.described || r.VisionParams != 0 {
			t.Errorf("%s: flags %s, has_vision %d", c.name, r.Flags, r.Arch.HasVision)
		}
		_, all := tensorBytes(t, whole)
		_, text := tensorBytes(t, dst)
		if len(all) != len(text)+27 {
			t.Errorf("%s: %d tensors and %d", c.name, len(all), len(text))
		}
		for name, b := range text {
			if !bytes.Equal(b, all[name]) {
				t.Errorf("%s: %s differs", c.name, name)
			}
		}
	}
}

func TestRefusesVision(t *testing.T) {
	type object = map[string]any
	hf := seeing.hfDir(t, "qwen3_vl", "F32", nil)
	text, mmproj := seeing.ggufFile(t, "qwen3vl", "F32", nil), seeing.tower.mmprojFile(t, "F32", nil, nil)
	mustFail(t, hf, convert.Options{Mmproj: mmproj}, convert.ErrOption, "mmproj")
	mustFail(t, mmproj, convert.Options{}, convert.ErrUnsupported, "--mmproj")
	mustFail(t, text, convert.Options{Mmproj: mmproj, TextOnly: true}, convert.ErrOption, "text-only")
	mustFail(t, text, convert.Options{Mmproj: text}, convert.ErrSource, `"qwen3vl"`)
	mustFail(t, miniature.ggufFile(t, "qwen3", "F32", nil), convert.Options{Mmproj: mmproj}, convert.ErrUnsupported, "no vision tower")
	// Every tensor of the tower is needed, by both routes.
	for _, w := range seeing.tower.weights() {
		src := seeing.hfDir(t, "qwen3_vl", "F32", func(_ object, v map[string][]float32) { delete(v, w.name) })
		mustFail(t, src, convert.Options{}, convert.ErrSource, fmt.Sprintf("%q is missing", w.name))
		file := seeing.tower.mmprojFile(t, "F32", nil, func(_ *ggufWriter, v map[string][]float32) { delete(v, w.name) })
		mustFail(t, text, convert.Options{Mmproj: file}, convert.ErrSource, fmt.Sprintf("%q is missing", seeing.tower.mmprojName(w.name)))
	}
	for key, c := range map[string]struct {
		v    any
		want string
	}{
		"depth":                    {4, "blocks.3."},
		"hidden_size":              {64, "blocks.0.attn.qkv"},
		"intermediate_size":        {64, "linear_fc1"},
		"patch_size":               {8, "patch_embed"},
		"temporal_patch_size":      {1, "patch_embed"},
		"spatial_merge_size":       {1, "merger"},
		"out_hidden_size":          {32, "merger"},
		"num_position_embeddings":  {16, "pos_embed"},
		"deepstack_visual_indexes": {[]int{0, 1, 2}, "deepstack_merger_list.2."},
	} {
		src := seeing.hfDir(t, "qwen3_vl", "F32", func(config object, _ map[string][]float32) {
			config["vision_config"].(object)[key] = c.v
		})
		mustFail(t, src, convert.Options{}, convert.ErrSource, c.want)
	}
	for _, c := range []struct {
		name string
		edit func(config, vision object)
		kind error
		want string
	}{
		{"other activation", func(_, v object) { v["hidden_act"] = "silu" }, convert.ErrUnsupported, "hidden_act"},
		{"fewer blocks", func(_, v object) { v["depth"] = 2; v["deepstack_visual_indexes"] = []int{0, 1} }, convert.ErrUnsupported, "blocks.2."},
		{"mergers out of order", func(_, v object) { v["deepstack_visual_indexes"] = []int{2, 0} }, convert.ErrUnsupported, "ascending"},
		{"no token", func(c, _ object) { delete(c, "image_token_id") }, convert.ErrSource, "image_token_id"},
		{"token past the vocabulary", func(c, _ object) { c["image_token_id"] = 48 }, convert.ErrSource, "image_token_id"},
		{"other epsilon", func(c, _ object) { c["rms_norm_eps"] = 1e-5 }, convert.ErrUnsupported, "epsilon"},
		{"heads", func(_, v object) { v["num_heads"] = 3 }, convert.ErrSource, "vis_heads"},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := seeing.hfDir(t, "qwen3_vl", "F32", func(config object, _ map[string][]float32) { c.edit(config, config["vision_config"].(object)) })
			mustFail(t, src, convert.Options{}, c.kind, c.want)
		})
	}
}

func TestRefusesProjector(t *testing.T) {
	text := seeing.ggufFile(t, "qwen3vl", "F32", nil)
	v := seeing.tower
	for _, c := range []struct {
		name string
		edit func(g *ggufWriter, values map[string][]float32)
		kind error
		want string
	}{
		{"audio too", func(g *ggufWriter, _ map[string][]float32) { g.set("clip.has_audio_encoder", true) }, convert.ErrUnsupported, "has_audio_encoder"},
		{"other activation", func(g *ggufWriter, _ map[string][]float32) { g.set("clip.use_silu", true) }, convert.ErrUnsupported, "use_silu"},
		{"pixels turned round", func(g *ggufWriter, _ map[string][]float32) {
			g.set("clip.vision.image_min_pixels", uint32(4096))
			g.set("clip.vision.image_max_pixels", uint32(1024))
		}, convert.ErrSource, "4096 to 1024 pixels"},
		{"unknown tensor", func(g *ggufWriter, _ map[string][]float32) { g.add("v.cls", "F32", []int{32}, make([]byte, 128)) }, convert.ErrUnsupported, `"v.cls"`},
		{"a tensor of the text", func(g *ggufWriter, _ map[string][]float32) {
			g.add("output.weight", "F32", []int{32}, make([]byte, 128))
		}, convert.ErrSource, "both files"},
		{"a frame more", func(g *ggufWriter, _ map[string][]float32) {
			g.add("v.patch_embd.weight.2", "F32", []int{32, 3, 4, 5}, make([]byte, 32*3*20*4))
		}, convert.ErrSource, "v.patch_embd.weight.2"},
		{"NaN", func(_ *ggufWriter, x map[string][]float32) {
			x["model.visual.patch_embed.proj.weight"][96*5+16*3+9] = float32(math.NaN()) // output 5, channel 1, frame 1
		}, convert.ErrSource, `"v.patch_embd.weight.1": element 265 (row 16, column 9)`},
		{"NaN in fc2", func(_ *ggufWriter, x map[string][]float32) {
			x["model.visual.blocks.1.mlp.linear_fc2.weight"][50*31+49] = float32(math.NaN())
		}, convert.ErrSource, `"v.blk.1.ffn_down.weight": element 1599 (row 31, column 49)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			mustFail(t, text, convert.Options{Mmproj: v.mmprojFile(t, "F32", nil, c.edit)}, c.kind, c.want)
		})
	}
	for _, c := range []struct {
		name string
		edit func(v *miniTower)
		kind error
		want string
	}{
		{"other width", func(v *miniTower) { v.out = 32 }, convert.ErrSource, "do not belong together"},
		{"other mergers", func(v *miniTower) { v.deepstack = []int{1} }, convert.ErrSource, "do not belong together"},
		{"five mergers", func(v *miniTower) { v.depth, v.deepstack = 6, []int{0, 1, 2, 3, 5} }, convert.ErrUnsupported, "over 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := *v
			c.edit(&w)
			mustFail(t, text, convert.Options{Mmproj: w.mmprojFile(t, "F32", nil, nil)}, c.kind, c.want)
		})
	}
	// What cannot be set twice is edited.
	b := readFile(t, v.mmprojFile(t, "F32", nil, nil))
	for _, c := range []struct{ from, to, want string }{
		{"qwen3vl_merger", "qwen2vl_merger", `"qwen2vl_merger"`},
		{"v.patch_embd.weight.1", "v.patch_embd.weight.7", `"v.patch_embd.weight.7"`}, // one frame, and a tensor that nothing asks for
		{string(encode("F32", []float32{0.5, 0.5, 0.5})), string(encode("F32", []float32{0.48, 0.46, 0.41})), "image mean"},
		{string(encode("F32", []float32{1e-6})), string(encode("F32", []float32{1e-5})), "epsilon"},
	} {
		path := filepath.Join(t.TempDir(), "mmproj.gguf")
		writeFile(t, path, bytes.Replace(b, []byte(c.from), []byte(c.to), 1))
		mustFail(t, text, convert.Options{Mmproj: path}, convert.ErrUnsupported, c.want)
	}
	wordless := seeing
	wordless.tower = nil // and so no tokens for pictures in the vocabulary
	mustFail(t, wordless.ggufFile(t, "qwen3vl", "F32", nil), convert.Options{Mmproj: v.mmprojFile(t, "F32", nil, nil)}, convert.ErrSource, "<|vision_start|>")
}

// The metadata tells what the image processor does, where the source says it.
func TestVisionMeta(t *testing.T) {
	dir := shared(t, "models/qwen3vl-tiny")
	hf, r := run(t, dir, convert.Options{})
	g, s := run(t, shared(t, "gguf/qwen3vl-tiny/qwen3vl-tiny-Q8_0.gguf"), convert.Options{Mmproj: shared(t, "gguf/qwen3vl-tiny/mmproj-qwen3vl-tiny-F16.gguf")})
	_, a := embedded(t, hf)
	_, b := embedded(t, g)
	half := []any{0.5, 0.5, 0.5}
	equal(t, "hf", a["vision"], map[string]any{"params": 614464.0, "image_mean": half, "image_std": half, "min_pixels": 4096.0, "max_pixels": 65536.0})
	equal(t, "gguf", b["vision"], map[string]any{"params": 614464.0, "image_mean": half, "image_std": half})
	equal(t, "arch", s.Arch, r.Arch)
	if len(b["sources"].([]any)) != 2 || !strings.Contains(s.Format, "projector") {
		t.Errorf("sources %v, format %q", b["sources"], s.Format)
	}
	for _, c := range []struct {
		name, text string
		kind       error
		want       string
	}{
		{"preprocessor_config.json", `{"patch_size": 14}`, convert.ErrSource, "patch_size is 14"},
		{"preprocessor_config.json", `{"image_mean": [0.48, 0.46, 0.41]}`, convert.ErrUnsupported, "image mean"},
		{"preprocessor_config.json", `{"do_normalize": false}`, convert.ErrUnsupported, "do_normalize"},
		{"preprocessor_config.json", `{"rescale_factor": 1}`, convert.ErrUnsupported, "rescale_factor"},
		{"processor_config.json", `{"image_processor": {"merge_size": 4}}`, convert.ErrSource, "merge_size is 4"},
	} {
		src := seeing.hfDir(t, "qwen3_vl", "F32", nil)
		writeFile(t, filepath.Join(src, c.name), []byte(c.text))
		mustFail(t, src, convert.Options{}, c.kind, c.want)
	}
}

// hfValues reads a directory's weights by the names that a mini uses.
func hfValues(t *testing.T, dir string) map[string][]float32 {
	t.Helper()
	m, err := safetensors.OpenModel(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	out := map[string][]float32{}
	for _, w := range m.Tensors() {
		n := 1
		for _, d := range w.Shape {
			n *= int(d)
		}
		v := make([]float32, n)
		if err := m.ReadFloats(v, w, 0); err != nil {
			t.Fatal(err)
		}
		out[strings.Replace(w.Name, "model.language_model.", "model.", 1)] = v
	}
	return out
}

// The golden model from its directory, and from a GGUF file and projector that
// hold the same weights without loss; and a projector of F16 is llama.cpp's own.
func TestSharedVision(t *testing.T) {
	dir := shared(t, "models/qwen3vl-tiny")
	m := mini{dim: 128, layers: 4, heads: 6, kv: 2, hd: 32, ff: 160, vocab: 608, qnorm: true, tied: true, tower: &miniTower{depth: 4, hidden: 64, heads: 4, ff: 96,
		patch: 16, temporal: 2, merge: 2, out: 128, positions: 36, deepstack: []int{0, 2, 3}}}
	values := hfValues(t, dir)
	for _, typ := range []string{"F32", "BF16"} {
		text := m.ggufFile(t, "qwen3vl", typ, func(_ *ggufWriter, v map[string][]float32) { maps.Copy(v, values) })
		mmproj := m.tower.mmprojFile(t, typ, values, nil)
		for _, mode := range allModes {
			a, r := run(t, dir, convert.Options{Mode: mode})
			b, s := run(t, text, convert.Options{Mode: mode, Mmproj: mmproj})
			sameTensors(t, a, b)
			x, y := r.Arch, s.Arch
			y.RopeTheta, y.MaxSeqLen, y.BosID, y.EosID = x.RopeTheta, x.MaxSeqLen, x.BosID, x.EosID // of the mini's metadata
			y.VisionStartID, y.VisionEndID, y.ImageTokenID, y.VideoTokenID = x.VisionStartID, x.VisionEndID, x.ImageTokenID, x.VideoTokenID
			equal(t, "arch", y, x)
		}
	}
	text := shared(t, "gguf/qwen3vl-tiny/qwen3vl-tiny-Q8_0.gguf")
	ours, _ := run(t, text, convert.Options{Mode: "q8", Mmproj: m.tower.mmprojFile(t, "F16", values, nil)})
	theirs, _ := run(t, text, convert.Options{Mode: "q8", Mmproj: shared(t, "gguf/qwen3vl-tiny/mmproj-qwen3vl-tiny-F16.gguf")})
	sameTensors(t, ours, theirs)
	// Against the directory it is the values that F16 has rounded, each in its
	// place, and nothing else.
	hf, _ := run(t, dir, convert.Options{Mode: "q8"})
	_, x := tensorBytes(t, hf)
	_, y := tensorBytes(t, theirs)
	for name, source := range map[string]string{"v_merger_f1w": "merger.linear_fc1.weight", "v_merger_f2w": "merger.linear_fc2.weight", "v_patch_embed": "patch_embed.proj.weight"} {
		v := slices.Clone(values["model.visual."+source])
		if !bytes.Equal(x[name], encode("F32", v)) {
			t.Errorf("%s is not the directory's", name)
		}
		for i := range v {
			v[i] = kernels.F16ToF32(kernels.F32ToF16(v[i]))
		}
		if !bytes.Equal(y[name], encode("F32", v)) {
			t.Errorf("%s is not the directory's in F16", name)
		}
	}
	for _, name := range []string{"v_pos_embed", "v_qkv_bias", "v_norm1_w", "v_norm2_b", "v_merger_nw", "v_ds_nw", "v_ds_f1b", "v_ds_f2b", "v_patch_bias"} {
		if !bytes.Equal(x[name], y[name]) {
			t.Errorf("%s, which the projector has in F32, differs", name)
		}
	}
}
