// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windhover/kernels"
	"windhover/vqf"
)

// tinyArch is the golden model's tower on a text model of one small layer.
func tinyArch() vqf.Arch {
	return vqf.Arch{
		Dim: 128, NLayers: 1, NHeads: 1, NKVHeads: 1, HeadDim: 32, HeadDimFull: 32, FFNDim: 32, VocabSize: 608, MaxSeqLen: 256,
		RopeTheta: 5e6, NormEps: 1e-6, HasQNorm: 1, HasMRope: 1, MRopeNSec: 3, MRopeSections: [4]int32{6, 5, 5},
		HasVision: 1, VisDepth: 4, VisHidden: 64, VisHeads: 4, VisFFN: 96, VisPatch: 16, VisTemporal: 2, VisMerge: 2,
		VisOutDim: 128, VisInChan: 3, VisMaxPos: 36, VisDSCount: 3, VisDSIdx: [4]int32{0, 2, 3},
		VisionStartID: 575, VisionEndID: 576, ImageTokenID: 578, VideoTokenID: 579,
	}
}

// source gives a part of a vision tensor.
type source func(name string, part, n int) []float32

// writeFile makes a VQF file whose text part is zero.
func writeFile(t testing.TB, a vqf.Arch, meta string, src source) *vqf.File {
	t.Helper()
	spec := vqf.Spec{Arch: a, Mode: vqf.ModeQ8, Q8: vqf.LayoutRow, Vision: true}
	if meta != "" {
		spec.Extra = []vqf.Extra{{Name: vqf.NameMeta, Size: int64(len(meta))}}
	}
	plan, err := vqf.NewPlan(spec)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tower.vqf")
	w, err := vqf.Create(path, plan)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for _, tensor := range plan.Tensors {
		if tensor.Bytes == 0 {
			continue
		}
		data := make([]byte, tensor.Bytes)
		switch {
		case tensor.Name == vqf.NameMeta:
			data = []byte(meta)
		case strings.HasPrefix(tensor.Name, "v_"):
			data = towerTensor(t, &a, tensor, src)
		}
		if err := w.WriteTensor(tensor.Name, data); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	f, err := vqf.Open(path, vqf.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// towerTensor makes the bytes of a vision tensor.
func towerTensor(t testing.TB, a *vqf.Arch, tensor vqf.Tensor, src source) []byte {
	s, ok := a.Shape(tensor.Name)
	if !ok {
		t.Fatalf("tensor %q is not in the catalogue", tensor.Name)
	}
	var out []byte
	for part := range s.Parts {
		cols := s.Cols
		if tensor.Name == "v_q8_fc2" {
			cols = int(a.VisFFN)
		}
		x := src(tensor.Name, part, s.Rows*cols)
		if tensor.Type == vqf.F32 {
			for _, v := range x {
				out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
			}
			continue
		}
		padded := make([]float32, s.Rows*s.Cols)
		for r := range s.Rows {
			copy(padded[r*s.Cols:], x[r*cols:][:cols])
		}
		blocks := make([]byte, len(padded)/kernels.BlockLen*kernels.Q8BlockBytes)
		kernels.QuantizeQ8(blocks, padded)
		out = append(out, blocks...)
	}
	return out
}

// goldenSource reads the golden tower.
func goldenSource(t testing.TB) source {
	t.Helper()
	z, err := os.ReadFile(filepath.Join(goldenDir, "tower.safetensors.gz"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(z))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(data)
	var head map[string]struct {
		Offsets [2]int `json:"data_offsets"`
	}
	if err := json.Unmarshal(data[8:8+n], &head); err != nil {
		t.Fatal(err)
	}
	body := data[8+n:]
	names := map[string]string{
		"v_q8_qkv": "blocks.%d.attn.qkv.weight", "v_q8_proj": "blocks.%d.attn.proj.weight",
		"v_q8_fc1": "blocks.%d.mlp.linear_fc1.weight", "v_q8_fc2": "blocks.%d.mlp.linear_fc2.weight",
		"v_patch_embed": "patch_embed.proj.weight", "v_patch_bias": "patch_embed.proj.bias", "v_pos_embed": "pos_embed.weight",
		"v_qkv_bias": "blocks.%d.attn.qkv.bias", "v_proj_bias": "blocks.%d.attn.proj.bias",
		"v_norm1_w": "blocks.%d.norm1.weight", "v_norm1_b": "blocks.%d.norm1.bias",
		"v_norm2_w": "blocks.%d.norm2.weight", "v_norm2_b": "blocks.%d.norm2.bias",
		"v_fc1_bias": "blocks.%d.mlp.linear_fc1.bias", "v_fc2_bias": "blocks.%d.mlp.linear_fc2.bias",
		"v_merger_nw": "merger.norm.weight", "v_merger_nb": "merger.norm.bias",
		"v_merger_f1w": "merger.linear_fc1.weight", "v_merger_f1b": "merger.linear_fc1.bias",
		"v_merger_f2w": "merger.linear_fc2.weight", "v_merger_f2b": "merger.linear_fc2.bias",
		"v_ds_nw": "deepstack_merger_list.%d.norm.weight", "v_ds_nb": "deepstack_merger_list.%d.norm.bias",
		"v_ds_f1w": "deepstack_merger_list.%d.linear_fc1.weight", "v_ds_f1b": "deepstack_merger_list.%d.linear_fc1.bias",
		"v_ds_f2w": "deepstack_merger_list.%d.linear_fc2.weight", "v_ds_f2b": "deepstack_merger_list.%d.linear_fc2.bias",
	}
	return func(name string, part, n int) []float32 {
		hf := names[name]
		if strings.Contains(hf, "%d") {
			hf = fmt.Sprintf(hf, part)
		}
		e, ok := head["model.visual."+hf]
		if b := body[e.Offsets[0]:e.Offsets[1]]; ok && len(b) == 2*n {
			x := make([]float32, n)
			for i := range x {
				x[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16)
			}
			return x
		}
		t.Fatalf("%s: no golden tensor %q of %d values", name, hf, n)
		return nil
	}
}

// noiseSource makes values from additions only, the same on every machine:
// norms around 1, the rest small.
func noiseSource(seed uint64) source {
	return func(name string, part, n int) []float32 {
		h := seed
		for _, c := range name {
			h = h*31 + uint64(c)
		}
		r := rand.New(rand.NewPCG(h, uint64(part)))
		x := make([]float32, n)
		for i := range x {
			x[i] = (r.Float32() + r.Float32() - r.Float32() - r.Float32()) / 8
			if strings.HasSuffix(name, "nw") || strings.HasSuffix(name, "norm1_w") || strings.HasSuffix(name, "norm2_w") {
				x[i]++
			}
		}
		return x
	}
}

// noiseImage is a picture of noise.
func noiseImage(w, h int, seed uint64) *Image {
	r := rand.New(rand.NewPCG(seed, 1))
	m := &Image{w, h, make([]uint8, 3*w*h)}
	for i := range m.Pix {
		m.Pix[i] = uint8(r.Uint32())
	}
	return m
}

// newPool is a pool of at most n workers.
func newPool(t testing.TB, n int) *kernels.Pool {
	t.Helper()
	topo, err := kernels.DetectTopology()
	if err != nil {
		t.Fatal(err)
	}
	p, err := kernels.NewPool(topo.All[:min(n, len(topo.All))], false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}
