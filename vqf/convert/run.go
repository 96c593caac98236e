// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"context"
	"errors"
	"fmt"
	"os"
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
	r.head(m, spec, plan, embedded)
	r.Quantiser = set.quantiser(spec.Mode)
	if set.Sign != nil {
		r.Signer = set.Sign.Public().Fingerprint()
	}
	r.Notes = append(r.Notes, note...)
	j := &work{model: m, set: set, spec: spec, plan: plan, meta: embedded, report: r, dst: dst}
	if j.progress = progress; progress == nil {
		j.progress = func(int64, int64) {}
	}
	if err := j.prepareOptimizing(ctx); err != nil {
		return nil, err
	}
	if err := j.write(ctx); err != nil {
		return nil, err
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
	spec = vqf.Spec{Arch: m.arch, Mode: mode, Vision: m.vision != nil, Fields: set.fields,
		Encrypt: set.Encrypt != nil, Signed: set.Sign != nil}
	spec.Q8, spec.Q4 = vqf.DefaultLayouts(m.arch, mode, set.q8)
	if mode.HasQ8() && mode != vqf.ModeQ4I && spec.Q8 != set.q8 {
		notes = append(notes, fmt.Sprintf("q8 is written row-major: the model's sizes do not divide into %s tiles (vocabulary %d)", set.q8, m.arch.VocabSize))
	}
	if mode.HasQ4() && spec.Q4 != vqf.Layout4x4 {
		notes = append(notes, fmt.Sprintf("q4 is written row-major: the model's sizes do not divide into 4x4 groups (vocabulary %d)", m.arch.VocabSize))
	}
	if set.Name != "" && (set.Bare || m.tokenizer == nil) {
		notes = append(notes, fmt.Sprintf("the name %q is dropped: it goes into the metadata, which a bare file does not have", set.Name))
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
					e.setErrors(prefix+r, 0, 0)
				}
			}
		}
		if spec.Vision {
			for _, name := range visionQuantised {
				e.setErrors(name, 0, 0)
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
