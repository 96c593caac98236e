// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"windhover/engine/vision"
	"windhover/vqf"
	"windhover/vqf/seal"
)

// inspectVQF shows a VQF file, refused or not. Only a file without the magic is
// an error: there is nothing to show.
func inspectVQF(path string) (*infoDoc, error) {
	info, err := vqf.Inspect(path)
	if err != nil {
		return nil, err
	}
	h := info.Header
	if h.Version == 0 {
		return nil, info.Refused
	}
	flags := uint32(h.Flags)
	d := &infoDoc{
		Format: "vqf", Size: info.Size, Version: h.Version, Flags: &flags, FlagNames: h.Flags.Names(), Header: h.Fields,
		Arch: &h.Arch, DataOffset: h.DataOffset, FileLen: h.FileLen, Tensors: []infoTensor{}, Groups: vqf.GroupSums(info.Tensors),
		path: path, refused: info.Refused,
	}
	if h.Flags&vqf.FlagSigned != 0 {
		d.Signer = seal.PublicKey(h.Sig.Pub).Fingerprint()
	}
	for _, t := range info.Tensors {
		d.Tensors = append(d.Tensors, infoTensor{Name: t.Name, Type: t.Type.String(), Rows: uint64(t.Rows), Cols: uint64(t.Cols), Offset: t.Offset, Bytes: t.Bytes})
	}
	if d.refused == nil {
		d.refused = d.describe()
	}
	return d, nil
}

// describe reads metadata and layouts; an error is why the file cannot be served.
func (d *infoDoc) describe() (err error) {
	f, err := vqf.Open(d.path, vqf.OpenOptions{})
	if errors.Is(err, vqf.ErrKey) { // nothing else is wrong with it
		d.Encrypted = true
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var meta struct {
		infoModel
		Template  string          `json:"chat_template"` // the field of infoModel says only whether
		Errors    json.RawMessage `json:"errors"`
		MaxErrors json.RawMessage `json:"max_errors"`
	}
	if b := f.Meta(); b != nil {
		if err := json.Unmarshal(b, &meta); err != nil {
			return fmt.Errorf("%s: %s: %v", d.path, vqf.NameMeta, err)
		}
	}
	m := &meta.infoModel
	d.Model, m.Template = m, meta.Template != ""
	if meta.Errors != nil || meta.MaxErrors != nil {
		// What another writer means by these words is no reason to refuse a file.
		if json.Unmarshal(meta.Errors, &m.Errors) != nil || json.Unmarshal(meta.MaxErrors, &m.MaxErrors) != nil {
			m.Errors, m.MaxErrors = nil, nil
		}
	}
	m.Optimised = strings.HasPrefix(m.Quantiser, "B+")
	m.Q8Layout, m.Q4Layout = "", "" // of the copies that are there, below
	m.Tokenizer = fmt.Sprintf("none inside: looked for in %s", filepath.Dir(d.path))
	if f.Tokenizer() != nil {
		m.Tokenizer = "embedded"
	}
	if m.Vision, err = visionOf(f); err != nil {
		return err
	}
	if f.HasQ8() {
		l, err := f.Q8Layout()
		if err != nil {
			return err
		}
		m.Q8Layout, m.Computes = l.String(), "q8 "+l.String()
	}
	if f.HasQ4() {
		l, err := f.Q4Layout()
		if err != nil {
			return err
		}
		m.Q4Layout, m.Computes = l.String(), "q4 "+l.String()
	}
	if f.HasQ8() && f.HasQ4() {
		m.Computes += fmt.Sprintf(`, or q8 %s with engine.family = "q8"`, m.Q8Layout)
	}
	return nil
}

// visionOf tells what a file's tower takes; nil for a file without one.
func visionOf(f *vqf.File) (*infoVision, error) {
	if !f.HasVision() {
		return nil, nil
	}
	c, err := vision.ConfigOf(f)
	if err != nil {
		return nil, err
	}
	a := f.Arch()
	v := &infoVision{
		MinPixels: c.Image.Min, MaxPixels: c.Image.Max, TokenSide: c.Patch * c.Merge,
		Blocks: a.VisDepth, Width: a.VisHidden, DeepStack: a.VisDSIdx[:a.VisDSCount],
	}
	for _, t := range f.Tensors() {
		if strings.HasPrefix(t.Name, "v_") {
			v.Bytes += t.Bytes
		}
	}
	return v, nil
}
