// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"sync"

	"windhover/vqf"
)

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
	tallies  tallies  // what quantising did so far
	journal  *journal // of a resumable conversion, else nil
}

// total is what progress counts to: the file is written, and read back.
func (j *work) total() int64 { return 2 * j.plan.Size() }

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

// writeFile fills the file and gives it its name, when it is whole.
func (j *work) writeFile(ctx context.Context, p *pipeline, h *hashing) (err error) {
	w, err := j.begin(ctx, p)
	if err != nil {
		return err
	}
	c := j.newCheckpoints(w)
	defer func() {
		if err != nil {
			c.end(err)
		}
	}()
	err = p.run(ctx, w, func(x *piece) error {
		for _, t := range x.sums {
			j.tallies[x.entry][x.part].add(t)
		}
		if _, left, ok := w.Next(); ok {
			j.progress(j.written(w, left), j.total())
		}
		return c.look()
	})
	if err != nil {
		return err
	}
	j.judge(p)
	if h.wg.Wait(); h.err != nil {
		return h.err
	}
	if err := c.settle(); err != nil {
		return err
	}
	if err := j.writeExtras(w, h.sums); err != nil {
		return err
	}
	return j.commit(ctx, w)
}

// commit has the file read back, checked and named.
func (j *work) commit(ctx context.Context, w *vqf.Writer) error {
	size := j.plan.Size()
	j.progress(size, j.total())
	res, err := w.CommitChecked(ctx, func(done, _ int64) { j.progress(size+done, j.total()) },
		func(tmp string) error { return j.selfCheck(ctx, tmp) })
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	r := j.report
	r.Bytes, r.SHA256 = res.Size, res.SHA256
	r.MemSum, r.FileSum = fmt.Sprintf("%016x", res.MemSum), fmt.Sprintf("%016x", res.FileSum)
	j.progress(j.total(), j.total())
	if j.journal == nil {
		return nil
	}
	return removeJournal(JournalName(j.dst))
}

// judge puts into the report what quantising did.
func (j *work) judge(p *pipeline) {
	r := j.report
	r.Errors, r.MaxErrors = map[string]float64{}, map[string]float64{}
	for i := range p.encs {
		t := j.plan.Tensors[i]
		q := newQuality(t, j.parts[role(t.Name)], j.tallies[i])
		if j.tallies[i] != nil {
			r.Errors[t.Name], r.MaxErrors[t.Name] = q.Error, q.Max
		}
		r.Quality = append(r.Quality, q)
	}
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
		j.meta.setErrors(name, v, j.report.MaxErrors[name])
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
// made, and holds what it finds against what was meant. The checksum was taken
// from the file a moment ago, and a plain file is not read again for it; of an
// encrypted one this compares the tag.
func (j *work) selfCheck(ctx context.Context, tmp string) (err error) {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("convert: self-check FAIL: %s: %s", filepath.Base(j.dst), fmt.Sprintf(format, args...))
	}
	f, err := vqf.OpenContext(ctx, tmp, vqf.OpenOptions{Key: j.set.Encrypt, Lazy: true}, nil)
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
	if s := f.Header().Sig; j.set.Sign != nil && (s.Pub != j.set.Sign.Public() || !j.set.Sign.Public().Verify(string(s.ID[:s.IDLen]), s.Digest, s.R, s.S)) {
		return fail("the signature does not verify")
	}
	if j.meta != nil && (!bytes.Equal(f.Tokenizer(), j.tokenizer) || f.Meta() == nil) {
		return fail("the embedded tokenizer or metadata is not what was written")
	}
	return nil
}
