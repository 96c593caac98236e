// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"windhover/kernels"
	"windhover/vqf"
)

// tellBy fills in what the file itself tells about the model: what an entry t_meta
// without a tokenizer says, else what the weights show.
func (e *meta) tellBy(f *vqf.File) error {
	if b := f.Meta(); b != nil {
		var old meta
		if err := json.Unmarshal(b, &old); err != nil {
			return faulty("%s: %s: %v", f.Path(), vqf.NameMeta, err)
		}
		e.Quantiser, e.Tied, e.Params, e.Vision = old.Quantiser, old.Tied, old.Params, old.Vision
		e.Sources = append(old.Sources, e.Sources...)
		if old.Errors != nil {
			e.Errors = old.Errors
		}
		if old.MaxErrors != nil {
			e.MaxErrors = old.MaxErrors
		}
		if e.Name == "" {
			e.Name = old.Name
		}
		if e.Pooling == "" {
			e.Pooling = old.Pooling
		}
		if old.Params > 0 {
			return nil
		}
	}
	var err error
	if e.Tied, err = looksTied(f); err == nil {
		e.Params = textParams(f.Arch(), e.Tied)
	}
	return err
}

// textParams counts the weights of the text model, each once.
func textParams(a vqf.Arch, tied bool) (n int64) {
	for _, r := range roles {
		if (r == "q_norm" || r == "k_norm") && a.HasQNorm == 0 || r == "moe_router" && !a.MoE() || r == "lm" && tied {
			continue
		}
		s, ok := a.Shape(r)
		if !ok {
			s, _ = a.Shape("q8_" + r) // a file that opens has sizes that fit
		}
		n += int64(s.Parts) * int64(s.Rows) * int64(s.Cols)
	}
	return n
}

const (
	tiedRows = 64 // rows that are looked at, spread over the vocabulary
	// A row rounded to four bits is about a tenth away from itself, the row of
	// another matrix about as far as it is long.
	tiedDistance = 0.3
)

// looksTied says whether the output matrix is the embedding, quantised: whether
// rows of both are the same but for rounding.
func looksTied(f *vqf.File) (bool, error) {
	a := f.Arch()
	name, layout := "q8_lm", kernels.Q8Row
	if f.HasQ8() {
		l, err := f.Q8Layout()
		if err != nil {
			return false, fmt.Errorf("convert: %w", err)
		}
		layout = [...]kernels.Layout{kernels.Q8Row, kernels.Q8x4, kernels.Q8x8}[l]
	} else {
		l, err := f.Q4Layout()
		if err != nil {
			return false, fmt.Errorf("convert: %w", err)
		}
		name, layout = "q4_lm", [...]kernels.Layout{kernels.Q4Row, kernels.Q4x4}[l]
	}
	embed, ok := f.Tensor("token_embed")
	if !ok {
		return false, nil
	}
	if _, ok := f.Tensor(name); !ok {
		return false, nil
	}
	dim, rows := int(a.Dim), int(a.VocabSize)
	h := layout.Rows()
	band := make([]byte, h*dim/kernels.BlockLen*(layout.GroupBytes()/h)) // the rows of a group
	out, in := make([]float32, dim), make([]float32, dim)
	var difference, length float64
	for i := range tiedRows {
		row := i * rows / tiedRows
		if err := f.ReadTensor(name, int64(row/h)*int64(len(band)), band); err != nil {
			return false, fmt.Errorf("convert: %w", err)
		}
		m, err := kernels.NewMatrix(band, h, dim, layout)
		if err != nil {
			return false, fmt.Errorf("convert: %w", err)
		}
		m.DequantizeRow(out, row%h)
		if err := readRow(f, embed, row, in); err != nil {
			return false, err
		}
		for j := range in {
			d := float64(out[j]) - float64(in[j])
			difference += d * d
			length += float64(in[j]) * float64(in[j])
		}
	}
	return length > 0 && math.Sqrt(difference/length) < tiedDistance, nil
}

// readRow reads a row of an F16 or F32 tensor.
func readRow(f *vqf.File, t vqf.Tensor, row int, dst []float32) error {
	size := 4
	if t.Type == vqf.F16 {
		size = 2
	}
	b := make([]byte, size*len(dst))
	if err := f.ReadTensor(t.Name, int64(row)*int64(len(b)), b); err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	for i := range dst {
		if size == 2 {
			dst[i] = kernels.F16ToF32(binary.LittleEndian.Uint16(b[2*i:]))
		} else {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
	}
	return nil
}
