// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"windhover/appliance"
	"windhover/vqf/convert"
	"windhover/vqf/gguf"
	"windhover/vqf/safetensors"
)

// maxDamaged is how many tensors of a damaged file are shown.
const maxDamaged = 4096

// inspectGGUF shows a GGUF file. One with tensors that cannot be read is shown,
// and refused; of a damaged one what stands before the damage.
func inspectGGUF(path string) (d *infoDoc, err error) {
	f, refused := gguf.Inspect(path)
	if f == nil {
		return nil, refused
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	d = &infoDoc{Format: "gguf", Size: f.Size(), Version: f.Version(), DataOffset: uint64(f.DataOffset()), FileLen: uint64(f.Size()),
		Metadata: map[string]any{}, Tensors: []infoTensor{}, path: path, refused: refused}
	for _, key := range f.Keys() {
		v, err := ggufValue(f, key)
		if err != nil {
			return nil, err
		}
		d.Metadata[key], d.metaKeys = v, append(d.metaKeys, key)
	}
	list := f.Tensors()
	if f.DataOffset() == 0 { // damaged, and perhaps made to be
		list = list[:min(len(list), maxDamaged)]
	}
	for _, t := range list {
		shape := slices.Clone(t.Dims)
		slices.Reverse(shape)
		d.Tensors = append(d.Tensors, infoTensor{Name: t.Name, Type: t.Type.String(), Rows: t.Rows(), Cols: t.Cols(), Shape: shape,
			Offset: uint64(t.Offset), Bytes: uint64(t.Bytes)})
		if !t.Type.Readable() && d.refused == nil {
			d.refused = fmt.Errorf("%s: tensor %q has type %s, which cannot be converted", path, t.Name, t.Type)
		}
	}
	d.countTypes()
	return d, nil
}

// ggufValue is a value as it is, an array as its size and type.
func ggufValue(f *gguf.File, key string) (any, error) {
	if v, err := f.Uint(key); err == nil {
		return v, nil
	}
	if v, err := f.Float(key); err == nil {
		return v, nil
	}
	if v, err := f.Bool(key); err == nil {
		return v, nil
	}
	return f.Scalar(key)
}

// inspectDir shows the model in a directory.
func inspectDir(dir string) (*infoDoc, error) {
	if path := appliance.WeightFile(dir); path != dir {
		return inspectVQF(path)
	}
	m, err := safetensors.OpenModel(dir)
	if err != nil {
		return nil, err
	}
	d := &infoDoc{Format: "safetensors", Tensors: []infoTensor{}, path: dir}
	for _, f := range m.Files() {
		d.addSafetensors(f, filepath.Base(f.Path()))
	}
	d.countTypes()
	d.examine()
	return d, m.Close()
}

// examine adds what a conversion would read out of config.json. What cannot be
// converted is shown without: convert says why.
func (d *infoDoc) examine() {
	if r, err := convert.Examine(d.path, convert.Options{}); err == nil {
		d.Architecture, d.Arch = r.Architecture, &r.Arch
	}
}

func inspectSafetensors(path string) (*infoDoc, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	d := &infoDoc{Format: "safetensors", Tensors: []infoTensor{}, path: path}
	d.addSafetensors(f, "")
	d.countTypes()
	return d, f.Close()
}

func (d *infoDoc) addSafetensors(f *safetensors.File, name string) {
	d.Size += f.Size()
	d.Files = append(d.Files, filepath.Base(f.Path()))
	for _, t := range f.Tensors() {
		rows, cols := uint64(1), t.Values()
		if n := len(t.Shape); n > 0 && t.Shape[n-1] > 0 {
			cols = t.Shape[n-1]
			rows = t.Values() / cols
		}
		d.Tensors = append(d.Tensors, infoTensor{Name: t.Name, Type: t.DType, Rows: rows, Cols: cols, Shape: t.Shape,
			Offset: uint64(t.Offset), Bytes: uint64(t.Bytes), File: name})
	}
}
