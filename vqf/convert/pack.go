// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"windhover/engine/tokenizer"
	"windhover/vqf"
	"windhover/vqf/seal"
)

// PackReport is what Pack found and made.
type PackReport struct {
	Source    string  `json:"source"`
	Tokenizer string  `json:"tokenizer"` // where it came from
	Tokens    int     `json:"tokens"`    // in its vocabulary
	Template  bool    `json:"chat_template"`
	Params    int64   `json:"params"`    // of the text model
	Tied      bool    `json:"tied"`      // the output matrix is the embedding
	Quantiser string  `json:"quantiser"` // "": nobody knows
	Pooling   string  `json:"pooling,omitempty"`
	Encrypted bool    `json:"encrypted"`
	Signed    bool    `json:"signed"`
	StopIDs   []int   `json:"stop_ids"`
	Output    string  `json:"output"`
	Tensors   int     `json:"tensors"`
	Bytes     int64   `json:"bytes"`
	FileSum   string  `json:"file_sum"`
	SHA256    string  `json:"sha256"`
	Seconds   float64 `json:"seconds"`
}

// PackOptions says what Pack needs beside the files.
type PackOptions struct {
	Converter     string           // names the program in the metadata
	Name          string           // of the model, for the metadata; "": what the words or the file say
	Key           *seal.Key        // of an encrypted file, which stays encrypted
	Sign          *seal.PrivateKey // signs the result
	SignID        string           // signer id; empty: seal.IDKestrel
	DropSignature bool             // the result of a signed file may be without one
}

// Pack writes dst: the file bare with tokenizer and metadata added at its end.
// Header, flags and the bytes of every tensor stay as they are, but for offsets,
// lengths and what encryption and signature need. Checksum or tag of bare is
// checked on the way, so that a damaged file does not get a fresh one. dst appears
// when it is complete and has been read back; it may be bare itself, but no file
// of w.
func Pack(ctx context.Context, bare string, w *Words, dst string, opt PackOptions, progress func(done, total int64)) (r *PackReport, err error) {
	start := time.Now()
	f, err := vqf.OpenContext(ctx, bare, vqf.OpenOptions{FullCheck: true, Key: opt.Key, Lazy: true}, nil)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	words := append(slices.Clone(w.src.files), sourceFile{path: w.src.path}, sourceFile{path: filepath.Join(w.src.path, "config.json")})
	if err := checkTarget(dst, words); err != nil {
		return nil, err
	}
	if err := w.src.computed(""); err != nil {
		return nil, err
	}
	if f.Tokenizer() != nil {
		return nil, unsupported("%s holds a tokenizer already: there is nothing to pack", bare)
	}
	if f.Flags()&vqf.FlagSigned != 0 && opt.Sign == nil && !opt.DropSignature {
		return nil, unsupported("%s is signed, and the signature covers what would change: sign the result, or let the signature go", bare)
	}
	tok, err := tokenizer.Parse(w.Tokenizer)
	if err != nil {
		return nil, &failure{kind: ErrUnsupported, msg: w.Origin, err: err}
	}
	if n := tok.VocabSize(); uint64(n) > uint64(f.Arch().VocabSize) {
		return nil, faulty("%s has %d tokens, the model %d: they do not belong together", w.Origin, n, f.Arch().VocabSize)
	}
	e, err := packMeta(ctx, f, w, opt)
	if err != nil {
		return nil, err
	}
	b, err := e.encode()
	if err != nil {
		return nil, err
	}
	plan, kept, err := packPlan(f, w.Tokenizer, b, opt.Sign != nil)
	if err != nil {
		return nil, err
	}
	res, err := packFile(ctx, f, plan, kept, [][]byte{w.Tokenizer, b}, dst, opt, progress)
	if err != nil {
		return nil, err
	}
	return &PackReport{Source: bare, Tokenizer: w.Origin, Tokens: tok.VocabSize(), Template: e.ChatTemplate != "", StopIDs: e.StopIDs,
		Params: e.Params, Tied: e.Tied, Quantiser: e.Quantiser, Pooling: e.Pooling, Encrypted: f.Encrypted(), Signed: opt.Sign != nil,
		Output: dst, Tensors: len(plan.Tensors), Bytes: res.Size, FileSum: fmt.Sprintf("%016x", res.FileSum), SHA256: res.SHA256,
		Seconds: time.Since(start).Seconds()}, nil
}

// packMeta is the metadata of a file that was converted by somebody else: what
// cannot be known is left open.
func packMeta(ctx context.Context, f *vqf.File, w *Words, opt PackOptions) (*meta, error) {
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
	// Of a family that the file lacks, its flags say what a writer of the same
	// file says, too.
	if f.Flags()&vqf.FlagQ8x8 != 0 {
		spec.Q8 = vqf.Layout8x8
	}
	if f.Flags()&vqf.FlagQ4x4 != 0 {
		spec.Q4 = vqf.Layout4x4
	}
	var err error
	if f.HasQ8() {
		if spec.Q8, err = f.Q8Layout(); err != nil {
			return nil, fmt.Errorf("convert: %w", err)
		}
	}
	if f.HasQ4() {
		if spec.Q4, err = f.Q4Layout(); err != nil {
			return nil, fmt.Errorf("convert: %w", err)
		}
	}
	e := newMeta(m, &settings{Options: Options{Converter: opt.Converter, Name: opt.Name}}, spec)
	e.Quantiser = "" // nobody knows, unless the file says
	sums, err := digests(ctx, m.files)
	if err != nil {
		return nil, err
	}
	for i, sum := range sums {
		e.Sources[i].SHA256 = sum
	}
	return e, e.tellBy(f)
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
func packPlan(f *vqf.File, tok, meta []byte, sign bool) (*vqf.Plan, []vqf.Tensor, error) {
	p := &vqf.Plan{Header: f.Header()}
	p.Header.Flags &^= vqf.FlagSigned
	for _, t := range f.Tensors() {
		if t.Name != vqf.NameMeta {
			p.Tensors = append(p.Tensors, t)
		}
	}
	kept := len(p.Tensors)
	if err := p.Add(vqf.Extra{Name: vqf.NameTokenizer, Size: int64(len(tok))}, vqf.Extra{Name: vqf.NameMeta, Size: int64(len(meta))}); err != nil {
		return nil, nil, fmt.Errorf("convert: %w", err)
	}
	if sign { // last: a signed plan takes no entries
		p.Header.Flags |= vqf.FlagSigned
	}
	if p.Header.Flags&(vqf.FlagSigned|vqf.FlagEnc) != 0 {
		p.Header.Fields = 45
	}
	return p, p.Tensors[:kept], nil
}

// packFile copies the kept tensors and writes the two entries behind them.
func packFile(ctx context.Context, f *vqf.File, plan *vqf.Plan, kept []vqf.Tensor, extra [][]byte, dst string, opt PackOptions, progress func(done, total int64)) (vqf.Result, error) {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	create := vqf.CreateOptions{Sign: opt.Sign, SignID: opt.SignID}
	if f.Encrypted() {
		create.Key = opt.Key
	}
	w, err := vqf.CreateWith(dst, plan, create)
	if err != nil {
		return vqf.Result{}, fmt.Errorf("convert: %w", err)
	}
	defer w.Abort()
	size := plan.Size()
	buf := make([]byte, 1<<20)
	for _, t := range kept {
		for off := uint64(0); off < t.Bytes; {
			if err := ctx.Err(); err != nil {
				return vqf.Result{}, err
			}
			part := buf[:min(t.Bytes-off, uint64(len(buf)))]
			if err := f.ReadTensor(t.Name, int64(off), part); err != nil {
				return vqf.Result{}, fmt.Errorf("convert: %w", err)
			}
			if _, err := w.Write(part); err != nil {
				return vqf.Result{}, fmt.Errorf("convert: %w", err)
			}
			off += uint64(len(part))
			if t, left, ok := w.Next(); ok {
				progress(int64(t.Offset+t.Bytes-left), 2*size)
			}
		}
	}
	for i, name := range []string{vqf.NameTokenizer, vqf.NameMeta} {
		if err := w.WriteTensor(name, extra[i]); err != nil {
			return vqf.Result{}, fmt.Errorf("convert: %w", err)
		}
	}
	res, err := w.CommitContext(ctx, func(done, _ int64) { progress(size+done, 2*size) })
	if err != nil {
		return vqf.Result{}, fmt.Errorf("convert: %w", err)
	}
	return res, nil
}
