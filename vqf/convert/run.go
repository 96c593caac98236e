// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"windhover/vqf"
)

// Run converts src, a Hugging Face directory or a GGUF file, into the VQF file
// dst ("": DefaultOutput). The result appears under its name only when it is
// complete, has been read back and has reached the storage; on an error there
// is nothing, and a file that had the name is as it was. progress (may be nil)
// hears how far the work is, from one goroutine at a time.
//
// Errors match ErrUnsupported, ErrSource or ErrOption, or are the system's;
// when ctx ends, its own.
func Run(ctx context.Context, src, dst string, opt Options, progress func(done, total int64)) (*Report, error) {
	start := time.Now()
	s, err := opt.resolve()
	if err != nil {
		return nil, err
	}
	if dst == "" {
		dst = DefaultOutput(src)
	}
	source, err := open(src, s)
	if err != nil {
		return nil, err
	}
	r, err := source.convertTo(ctx, dst, s, progress)
	if cerr := source.closer.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("convert: %w", cerr)
	}
	if err != nil {
		return nil, err
	}
	r.Seconds = time.Since(start).Seconds()
	return r, nil
}

// checkTarget keeps the result from replacing a directory or one of its own
// sources.
func checkTarget(dst string, files []sourceFile) error {
	st, err := os.Stat(dst)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	if st.IsDir() {
		return &failure{kind: ErrOption, msg: fmt.Sprintf("%s is a directory: name the file to write", dst)}
	}
	for _, f := range files {
		if from, err := os.Stat(f.path); err == nil && os.SameFile(from, st) {
			return &failure{kind: ErrOption, msg: fmt.Sprintf("%s is part of the source", dst)}
		}
	}
	return nil
}

func (s *source) convertTo(ctx context.Context, dst string, set *settings, progress func(done, total int64)) (*Report, error) {
	if err := checkTarget(dst, s.files); err != nil {
		return nil, err
	}
	m, err := s.bind()
	if err != nil {
		return nil, err
	}
	if err := s.words.checkTemplate(); err != nil {
		return nil, err
	}
	r := &Report{Output: dst, Auto: set.mode == ""}
	spec, note := m.spec(set, r)
	plan, embedded, err := m.plan(set, &spec)
	if err != nil {
		return nil, err
	}
	r.head(m, spec, plan)
	r.Quantiser = set.quantiser(spec.Mode)
	r.Embedded = embedded != nil
	r.Notes = append(r.Notes, note...)
	j := &work{model: m, set: set, spec: spec, plan: plan, meta: embedded, report: r, dst: dst}
	if j.progress = progress; progress == nil {
		j.progress = func(int64, int64) {}
	}
	if err := j.write(ctx); err != nil {
		return nil, err
	}
	if err := j.selfCheck(); err != nil {
		// What cannot be loaded must not lie where a server looks for models.
		return nil, errors.Join(err, os.Remove(dst))
	}
	return r, nil
}

// spec chooses mode and layouts, and says what the user may not expect.
func (m *model) spec(set *settings, r *Report) (spec vqf.Spec, notes []string) {
	mode := set.mode
	if mode == "" {
		if mode = vqf.ModeQ4; m.params <= maxAutoQ8 {
			mode = vqf.ModeQ8
		}
	}
	spec = vqf.Spec{Arch: m.arch, Mode: mode, Vision: m.vision != nil, Fields: set.fields}
	spec.Q8, spec.Q4 = vqf.DefaultLayouts(m.arch, mode, set.q8)
	if mode.HasQ8() && mode != vqf.ModeQ4I && spec.Q8 != set.q8 {
		notes = append(notes, fmt.Sprintf("q8 is written row-major: the model's sizes do not divide into %s tiles (vocabulary %d)", set.q8, m.arch.VocabSize))
	}
	if mode.HasQ4() && spec.Q4 != vqf.Layout4x4 {
		notes = append(notes, fmt.Sprintf("q4 is written row-major: the model's sizes do not divide into 4x4 groups (vocabulary %d)", m.arch.VocabSize))
	}
	if m.tokenizer == nil && !set.Bare {
		notes = append(notes, "the source has no tokenizer: none is embedded, and the file needs one beside it to be served")
	}
	return spec, notes
}

// plan settles every entry. Without a tokenizer the file is bare.
func (m *model) plan(set *settings, spec *vqf.Spec) (*vqf.Plan, *meta, error) {
	var e *meta
	if m.tokenizer != nil && !set.Bare {
		e = newMeta(m, set, *spec)
		for _, r := range roles {
			for _, prefix := range []string{"q8_", "q4_"} {
				if _, quantised := m.arch.Shape(prefix + r); quantised && (prefix == "q8_" && spec.Mode.HasQ8() || prefix == "q4_" && spec.Mode.HasQ4()) {
					e.setError(prefix+r, 0)
				}
			}
		}
		if spec.Vision {
			for _, name := range visionQuantised {
				e.setError(name, 0)
			}
		}
		b, err := e.encode()
		if err != nil {
			return nil, nil, err
		}
		spec.Extra = []vqf.Extra{{Name: vqf.NameTokenizer, Size: int64(len(m.tokenizer))}, {Name: vqf.NameMeta, Size: int64(len(b))}}
	}
	plan, err := vqf.NewPlan(*spec)
	if errors.Is(err, vqf.ErrUnsupported) {
		return nil, nil, &failure{kind: ErrUnsupported, msg: m.path, err: err}
	}
	if err != nil {
		return nil, nil, &failure{kind: ErrSource, msg: m.path, err: err}
	}
	return plan, e, nil
}

// work is one conversion under way.
type work struct {
	*model
	set      *settings
	spec     vqf.Spec
	plan     *vqf.Plan
	meta     *meta // nil: bare
	report   *Report
	dst      string
	progress func(done, total int64)
}

// write makes the file.
func (j *work) write(ctx context.Context) error {
	weights := j.plan.Tensors[:len(j.plan.Tensors)-len(j.spec.Extra)]
	p := &pipeline{m: j.model, plan: j.plan, threads: j.set.Threads, chunk: j.set.Chunk}
	for _, t := range weights {
		e, err := encodingOf(t, j.spec.Mode, j.spec.Q8, j.spec.Q4)
		if err != nil {
			return err
		}
		j.set.optimise(&e, t)
		p.encs = append(p.encs, e)
	}
	// The source is hashed beside the work; both end before it is closed.
	ctx, cancel := context.WithCancel(ctx)
	var h hashing
	defer h.wg.Wait()
	defer cancel()
	if j.meta != nil {
		h.wg.Go(func() { h.sums, h.err = digests(ctx, j.files) })
	}
	return j.writeFile(ctx, p, &h)
}

// hashing is the work of digests; wg is done when sums or err is there.
type hashing struct {
	wg   sync.WaitGroup
	sums []string
	err  error
}

func (j *work) writeFile(ctx context.Context, p *pipeline, h *hashing) error {
	w, err := vqf.Create(j.dst, j.plan)
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	defer w.Abort()
	size := j.plan.Size()
	errs := make(errorSums, len(p.encs))
	err = p.run(ctx, w, func(entry int, rows []float64) {
		errs.add(entry, rows)
		if _, left, ok := w.Next(); ok {
			j.progress(j.written(w, left), 3*size)
		}
	})
	if err != nil {
		return err
	}
	j.report.Errors = map[string]float64{}
	for i := range errs {
		if p.encs[i].layout != 0 {
			j.report.Errors[j.plan.Tensors[i].Name] = errs.relative(i)
		}
	}
	if h.wg.Wait(); h.err != nil {
		return h.err
	}
	if err := j.writeExtras(w, h.sums); err != nil {
		return err
	}
	j.progress(size, 3*size)
	res, err := w.CommitContext(ctx, func(done, _ int64) { j.progress(size+done, 3*size) })
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	r := j.report
	r.Bytes, r.SHA256 = res.Size, res.SHA256
	r.MemSum, r.FileSum = fmt.Sprintf("%016x", res.MemSum), fmt.Sprintf("%016x", res.FileSum)
	return nil
}

// written is the file offset that the writer has reached.
func (j *work) written(w *vqf.Writer, left uint64) int64 {
	t, _, _ := w.Next()
	return int64(t.Offset + t.Bytes - left)
}

// writeExtras embeds tokenizer and metadata, now that digests and errors are
// known.
func (j *work) writeExtras(w *vqf.Writer, list []string) error {
	if j.meta == nil {
		return nil
	}
	for i, sum := range list {
		j.meta.Sources[i].SHA256 = sum
	}
	for name, v := range j.report.Errors {
		j.meta.setError(name, v)
	}
	b, err := j.meta.encode()
	if err != nil {
		return err
	}
	if want := j.spec.Extra[1].Size; int64(len(b)) != want {
		return fmt.Errorf("convert: internal error: metadata of %d bytes, planned %d", len(b), want)
	}
	if err := w.WriteTensor(vqf.NameTokenizer, j.tokenizer); err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	if err := w.WriteTensor(vqf.NameMeta, b); err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	return nil
}

// selfCheck opens the result as the server does, knowing nothing of how it was
// made, and holds what it finds against what was meant.
func (j *work) selfCheck() (err error) {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("convert: self-check FAIL: %s: %s", filepath.Base(j.dst), fmt.Sprintf(format, args...))
	}
	f, err := vqf.Open(j.dst, vqf.OpenOptions{FullCheck: true})
	if err != nil {
		return fmt.Errorf("convert: self-check FAIL: %w", err)
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("convert: %w", cerr)
		}
	}()
	r := j.report
	r.Flags, r.FlagNames = f.Flags(), f.Flags().Names()
	if f.Flags() != j.plan.Header.Flags || f.Arch() != j.arch || len(f.Tensors()) != r.Tensors {
		return fail("flags %s, %d tensors, %+v", f.Flags(), len(f.Tensors()), f.Arch())
	}
	if f.HasQ8() {
		if l, err := f.Q8Layout(); err != nil || l != j.spec.Q8 {
			return fail("q8 layout %s, %v, want %s", l, err, j.spec.Q8)
		}
	}
	if f.HasQ4() {
		if l, err := f.Q4Layout(); err != nil || l != j.spec.Q4 {
			return fail("q4 layout %s, %v, want %s", l, err, j.spec.Q4)
		}
	}
	if j.meta != nil && (!bytes.Equal(f.Tokenizer(), j.tokenizer) || f.Meta() == nil) {
		return fail("the embedded tokenizer or metadata is not what was written")
	}
	size := j.plan.Size()
	j.progress(3*size, 3*size)
	return nil
}
