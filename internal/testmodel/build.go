// SPDX-License-Identifier: Apache-2.0

package testmodel

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"windhover/kernels"
	"windhover/vqf"
)

// Source gives the float32 values of a matrix or vector by the file's name
// without the family ("token_embed", "attn_norm", "q", "lm", …), for a layer;
// layer is 0 for what exists once. Tensors of a vision tower are asked for by their
// full names, and parts. It is called once for each family.
type Source func(name string, layer int) ([]float32, error)

// Spec says what [Build] writes. Spec.VQF.Extra is filled in.
type Spec struct {
	VQF       vqf.Spec
	Tokenizer []byte // tokenizer.json, or nil
	Meta      []byte // t_meta, or nil
}

// Build writes a model to path.
func Build(path string, s Spec, src Source) error {
	for _, e := range []struct {
		name string
		data []byte
	}{{vqf.NameTokenizer, s.Tokenizer}, {vqf.NameMeta, s.Meta}} {
		if e.data != nil {
			s.VQF.Extra = append(s.VQF.Extra, vqf.Extra{Name: e.name, Size: int64(len(e.data))})
		}
	}
	plan, err := vqf.NewPlan(s.VQF)
	if err != nil {
		return err
	}
	w, err := vqf.Create(path, plan)
	if err != nil {
		return err
	}
	defer w.Abort()
	for _, t := range plan.Tensors {
		var data []byte
		switch t.Name {
		case vqf.NameTokenizer:
			data = s.Tokenizer
		case vqf.NameMeta:
			data = s.Meta
		default:
			if data, err = tensor(&s.VQF, t, src); err != nil {
				return fmt.Errorf("testmodel: tensor %q: %w", t.Name, err)
			}
		}
		if err := w.WriteTensor(t.Name, data); err != nil {
			return err
		}
	}
	_, err = w.Commit()
	return err
}

// tensor makes the bytes of an entry from its source values.
func tensor(s *vqf.Spec, t vqf.Tensor, src Source) ([]byte, error) {
	if strings.HasPrefix(t.Name, "v_") {
		return towerTensor(&s.Arch, t, src)
	}
	name, quantised := t.Name, false
	if t.Type == vqf.Q8_0 || t.Type == vqf.Q4_0 {
		name, quantised = strings.TrimPrefix(strings.TrimPrefix(name, "q8_"), "q4_"), true
	}
	layers := int(s.Arch.NLayers)
	if name == "token_embed" || name == "final_norm" || name == "lm" {
		layers = 1
	}
	var out []byte
	for l := range layers {
		x, err := src(name, l)
		if err != nil {
			return nil, err
		}
		switch {
		case quantised:
			out = append(out, quantise(s, t.Type, name, x)...)
		case t.Type == vqf.F16:
			for _, v := range x {
				out = binary.LittleEndian.AppendUint16(out, kernels.F32ToF16Trunc(v))
			}
		default:
			for _, v := range x {
				out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
			}
		}
	}
	return out, nil
}

// quantise rounds a matrix and lays it out.
func quantise(s *vqf.Spec, typ vqf.QType, name string, x []float32) []byte {
	cols := int(s.Arch.Dim)
	switch name {
	case "o":
		cols = int(s.Arch.QDim())
	case "down":
		cols = int(s.Arch.FFNDim)
	}
	rows := len(x) / cols
	size, layout := kernels.Q8BlockBytes, [...]kernels.Layout{kernels.Q8Row, kernels.Q8x4, kernels.Q8x8}[s.Q8]
	if typ == vqf.Q4_0 {
		size, layout = kernels.Q4BlockBytes, [...]kernels.Layout{kernels.Q4Row, kernels.Q4x4}[s.Q4]
	}
	flat := make([]byte, len(x)/kernels.BlockLen*size)
	switch {
	case typ == vqf.Q4_0:
		kernels.QuantizeQ4(flat, x)
	case s.Mode == vqf.ModeQ4I:
		kernels.QuantizeQ4I(flat, x)
	case s.Mode == vqf.ModeG256:
		kernels.QuantizeG256(flat, x)
	default:
		kernels.QuantizeQ8(flat, x)
	}
	if layout.Rows() == 1 {
		return flat
	}
	out := make([]byte, len(flat))
	kernels.Repack(out, flat, rows, cols, layout)
	return out
}
