// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"context"
	"errors"
	"fmt"
	"time"

	"windhover/engine/tokenizer"
	"windhover/vqf"
)

// PackReport is what Pack found and made.
type PackReport struct {
	Source    string  `json:"source"`
	Tokenizer string  `json:"tokenizer"` // where it came from
	Tokens    int     `json:"tokens"`    // in its vocabulary
	Template  bool    `json:"chat_template"`
	StopIDs   []int   `json:"stop_ids"`
	Output    string  `json:"output"`
	Tensors   int     `json:"tensors"`
	Bytes     int64   `json:"bytes"`
	FileSum   string  `json:"file_sum"`
	SHA256    string  `json:"sha256"`
	Seconds   float64 `json:"seconds"`
}

// Pack writes dst: the file bare with tokenizer and metadata added at its end.
// Header, flags and the bytes of every tensor stay as they are, but for offsets
// and lengths. The checksum of bare is checked on the way, so that a damaged
// file does not get a fresh one. dst appears when it is complete and has been
// read back; it may be bare itself. converter names the program in the metadata.
func Pack(ctx context.Context, bare string, w *Words, dst, converter string, progress func(done, total int64)) (r *PackReport, err error) {
	start := time.Now()
	f, err := vqf.Open(bare, vqf.OpenOptions{FullCheck: true})
	if err != nil {
		return nil, fmt.Errorf("convert: pack: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if f.Tokenizer() != nil {
		return nil, &failure{kind: ErrOption, msg: fmt.Sprintf("pack: %s holds a tokenizer already", bare)}
	}
	if f.Flags()&vqf.FlagSigned != 0 {
		return nil, unsupported("pack: %s is signed, and the signature covers what would change", bare)
	}
	tok, err := tokenizer.Parse(w.Tokenizer)
	if err != nil {
		return nil, &failure{kind: ErrUnsupported, msg: w.Origin, err: err}
	}
	if n := tok.VocabSize(); uint64(n) > uint64(f.Arch().VocabSize) {
		return nil, faulty("%s has %d tokens, the model %d: they do not belong together", w.Origin, n, f.Arch().VocabSize)
	}
	e, err := packMeta(ctx, f, w, converter)
	if err != nil {
		return nil, err
	}
	b, err := e.encode()
	if err != nil {
		return nil, err
	}
	plan, kept, err := packPlan(f, w.Tokenizer, b)
	if err != nil {
		return nil, err
	}
	res, err := packFile(ctx, f, plan, kept, [][]byte{w.Tokenizer, b}, dst, progress)
	if err != nil {
		return nil, err
	}
	return &PackReport{Source: bare, Tokenizer: w.Origin, Tokens: tok.VocabSize(), Template: e.ChatTemplate != "", StopIDs: e.StopIDs,
		Output: dst, Tensors: len(plan.Tensors), Bytes: res.Size, FileSum: fmt.Sprintf("%016x", res.FileSum), SHA256: res.SHA256,
		Seconds: time.Since(start).Seconds()}, nil
}

// packMeta is the metadata of a file that was converted by somebody else: what
// cannot be known is left open.
func packMeta(ctx context.Context, f *vqf.File, w *Words, converter string) (*meta, error) {
	if err := w.src.words.checkTemplate(); err != nil {
		return nil, err
	}
	a := f.Arch()
	m := &model{source: w.src}
	m.context = uint64(a.MaxSeqLen)
	if m.architecture == "" {
		if m.architecture = "llama"; a.HasQNorm != 0 {
			m.architecture = "qwen3"
		}
	}
	spec := vqf.Spec{Mode: modeOf(f)}
	var err error
	if f.HasQ8() {
		if spec.Q8, err = f.Q8Layout(); err != nil {
			return nil, fmt.Errorf("convert: pack: %w", err)
		}
	}
	if f.HasQ4() {
		if spec.Q4, err = f.Q4Layout(); err != nil {
			return nil, fmt.Errorf("convert: pack: %w", err)
		}
	}
	e := newMeta(m, &settings{Options: Options{Converter: converter}}, spec)
	e.Quantiser = "" // nobody knows
	sums, err := digests(ctx, m.files)
	for i, sum := range sums {
		e.Sources[i].SHA256 = sum
	}
	return e, err
}

func modeOf(f *vqf.File) vqf.Mode {
	switch {
	case f.HasQ8() && f.HasQ4():
		return vqf.ModeDual
	case f.HasQ4():
		return vqf.ModeQ4
	case f.Flags()&vqf.FlagQ8BufQ4 != 0:
		return vqf.ModeQ4I
	case f.Flags()&vqf.FlagG256 != 0:
		return vqf.ModeG256
	}
	return vqf.ModeQ8
}

// packPlan is the plan of f with two more entries; kept are the entries before
// them. A t_meta without a tokenizer is replaced.
func packPlan(f *vqf.File, tok, meta []byte) (*vqf.Plan, []vqf.Tensor, error) {
	p := &vqf.Plan{Header: f.Header()}
	for _, t := range f.Tensors() {
		if t.Name != vqf.NameMeta {
			p.Tensors = append(p.Tensors, t)
		}
	}
	kept := len(p.Tensors)
	if err := p.Add(vqf.Extra{Name: vqf.NameTokenizer, Size: int64(len(tok))}, vqf.Extra{Name: vqf.NameMeta, Size: int64(len(meta))}); err != nil {
		return nil, nil, fmt.Errorf("convert: pack: %w", err)
	}
	return p, p.Tensors[:kept], nil
}

// packFile copies the kept tensors and writes the two entries behind them.
func packFile(ctx context.Context, f *vqf.File, plan *vqf.Plan, kept []vqf.Tensor, extra [][]byte, dst string, progress func(done, total int64)) (vqf.Result, error) {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	w, err := vqf.Create(dst, plan)
	if err != nil {
		return vqf.Result{}, fmt.Errorf("convert: pack: %w", err)
	}
	defer w.Abort()
	size := plan.Size()
	for _, t := range kept {
		data, err := f.Data(t.Name)
		if err != nil {
			return vqf.Result{}, fmt.Errorf("convert: pack: %w", err)
		}
		for len(data) > 0 {
			if err := ctx.Err(); err != nil {
				return vqf.Result{}, err
			}
			n := min(len(data), 1<<20)
			if _, err := w.Write(data[:n]); err != nil {
				return vqf.Result{}, fmt.Errorf("convert: pack: %w", err)
			}
			data = data[n:]
			if t, left, ok := w.Next(); ok {
				progress(int64(t.Offset+t.Bytes-left), 2*size)
			}
		}
	}
	for i, name := range []string{vqf.NameTokenizer, vqf.NameMeta} {
		if err := w.WriteTensor(name, extra[i]); err != nil {
			return vqf.Result{}, fmt.Errorf("convert: pack: %w", err)
		}
	}
	res, err := w.CommitContext(ctx, func(done, _ int64) { progress(size+done, 2*size) })
	if err != nil {
		return vqf.Result{}, fmt.Errorf("convert: pack: %w", err)
	}
	return res, nil
}
