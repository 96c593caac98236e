// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"

	"windhover/internal/testmodel"
	"windhover/kernels"
	"windhover/vqf"
)

// arch is the header of a VQF file.
func (s shape) arch() vqf.Arch {
	u := func(n int) uint32 { return uint32(n) }
	a := vqf.Arch{
		Dim: u(s.dim), NLayers: u(s.layers), NHeads: u(s.heads), NKVHeads: u(s.kv), HeadDim: u(s.hd), HeadDimFull: u(s.hd), FFNDim: u(s.ff),
		VocabSize: u(s.vocab), MaxSeqLen: context, RopeTheta: float32(s.ropeTheta()), NormEps: eps, BosID: vqf.NoToken, EosID: testmodel.TokenEnd,
		HasQNorm: 1, NExperts: u(s.experts), MoEFFN: u(s.expertFF), TopK: u(s.top),
	}
	if s.llama {
		a.HasQNorm = 0
	}
	if s.vision {
		a.HasMRope, a.MRopeNSec, a.MRopeSections = 1, 3, [4]int32{24, 20, 20}
		a.HasVision, a.VisDepth, a.VisHidden, a.VisHeads, a.VisFFN = 1, 24, 1024, 16, 4096
		a.VisPatch, a.VisTemporal, a.VisMerge, a.VisOutDim, a.VisInChan, a.VisMaxPos = 16, 2, 2, u(s.dim), 3, 2304
		a.VisDSCount, a.VisDSIdx = 3, [4]int32{5, 11, 17}
		a.VisionStartID, a.VisionEndID, a.ImageTokenID, a.VideoTokenID = 151652, 151653, 151655, 151656
	}
	return a
}

// writeVQF writes the layouts that a conversion chooses.
func writeVQF(path string, s shape, mode vqf.Mode, seed uint64) error {
	spec := vqf.Spec{Arch: s.arch(), Mode: mode, Vision: s.vision}
	spec.Q8, spec.Q4 = vqf.DefaultLayouts(spec.Arch, mode, vqf.Layout8x8)
	extra := map[string][]byte{vqf.NameTokenizer: s.tokenizer()}
	spec.Extra = []vqf.Extra{{Name: vqf.NameTokenizer, Size: int64(len(extra[vqf.NameTokenizer]))}}
	if s.embeds {
		meta, err := embeddingMeta(spec)
		if err != nil {
			return err
		}
		extra[vqf.NameMeta] = meta
		spec.Extra = append(spec.Extra, vqf.Extra{Name: vqf.NameMeta, Size: int64(len(meta))})
	}
	plan, err := vqf.NewPlan(spec)
	if err != nil {
		return err
	}
	w, err := vqf.Create(path, plan)
	if err != nil {
		return err
	}
	defer w.Abort()
	buf := make([]byte, 0, 4<<20)
	for i, t := range plan.Tensors {
		if b, ok := extra[t.Name]; ok {
			if err := w.WriteTensor(t.Name, b); err != nil {
				return err
			}
			continue
		}
		put := valuesOf(t, spec, rand.NewPCG(seed, uint64(i)))
		for left := int(t.Bytes); left > 0; left -= len(buf) {
			for buf = buf[:0]; len(buf) < min(left, cap(buf)-4096); {
				buf = put(buf)
			}
			if _, err := w.Write(buf); err != nil {
				return err
			}
		}
	}
	_, err = w.Commit()
	return err
}

// embeddingMeta is the metadata of a model of embeddings.
func embeddingMeta(spec vqf.Spec) ([]byte, error) {
	return json.Marshal(map[string]any{"v": 1, "converter": "seed-model", "name": "made-up weights", "architecture": "qwen3",
		"bos_id": -1, "eos_token": testmodel.Specials[testmodel.TokenEnd], "eos_id": testmodel.TokenEnd, "stop_ids": []int{testmodel.TokenEnd},
		"mode": spec.Mode, "q8_layout": spec.Q8.String(), "q4_layout": spec.Q4.String(), "context_length": context, "pooling": "last"})
}

// valuesOf appends a few values of a tensor at each call: a row group of blocks,
// or a number.
func valuesOf(t vqf.Tensor, spec vqf.Spec, r *rand.PCG) func([]byte) []byte {
	le := binary.LittleEndian
	uniform := func(deviation float64) float32 {
		return float32(float64(int32(r.Uint64()>>32)) * (deviation * math.Sqrt(3) / (1 << 31)))
	}
	tower := strings.HasPrefix(t.Name, "v_")
	switch t.Type {
	case vqf.Q8_0, vqf.Q4_0:
		rows, typ := [...]int{1, 4, 8}[spec.Q8], blockTypes["q8_0"]
		if tower {
			rows = 1
		}
		if t.Type == vqf.Q4_0 {
			rows, typ = [...]int{1, 4}[spec.Q4], blockTypes["q4_0"]
		}
		scale := kernels.F32ToF16(float32(deviation / typ.spread))
		return func(b []byte) []byte {
			for range rows {
				b = le.AppendUint16(b, scale)
			}
			for range rows * typ.codes / 8 {
				x := r.Uint64()
				if t.Type == vqf.Q8_0 { // no code is -128
					x |= (x &^ (x&0x7f7f7f7f7f7f7f7f + 0x7f7f7f7f7f7f7f7f)) & 0x8080808080808080 >> 7
				}
				b = le.AppendUint64(b, x)
			}
			return b
		}
	case vqf.F16:
		return func(b []byte) []byte { return le.AppendUint16(b, kernels.F32ToF16Trunc(uniform(deviation))) }
	}
	base, size := float32(0), deviation
	norm := strings.HasSuffix(t.Name, "norm") || strings.HasSuffix(t.Name, "_nw") || strings.HasPrefix(t.Name, "v_norm") && strings.HasSuffix(t.Name, "_w")
	if norm {
		base, size = 1, 0.05
	}
	return func(b []byte) []byte { return le.AppendUint32(b, math.Float32bits(base+uniform(size))) }
}
