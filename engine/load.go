// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"windhover/engine/tokenizer"
	"windhover/kernels"
	"windhover/vqf"
)

// Info describes a loaded model.
type Info struct {
	Path         string
	Name         string // from the metadata; may be empty
	Architecture string // from the metadata; may be empty
	Config       Config
	Flags        vqf.Flags
	FileBytes    int64
	Family       string // "q4" or "q8": what computes
	Layout       string // of its matrices, such as "q8 8x8"
	Activations  string // "int8" or "f32"
	Threads      int
	Context      int // tokens a sequence may have
	Sequences    int // requests that are computed at once
	Chunk        int
	Need         Need          // Need.Residency says how the weights are held, Need.Weights how many bytes of them
	Tokenizer    string        // "embedded", a path, or "" when loaded without
	Restored     int           // positions that were read from Options.Saved
	RestoreErr   string        // why not all that is there; "" where nothing is
	TemplateErr  string        // why the model's chat template cannot be used
	Thinks       bool          // the vocabulary has thinking markers
	LoadTime     time.Duration // to ready
	Sight        *Sight        // nil when the model takes no pictures

	imageToken, videoToken int32 // 0 or less when there is none
}

// maxContext is the most tokens a sequence may have.
const maxContext = 1 << 20

func (o *Options) reference() bool { return o.Activations == "f32" }

func (o *Options) chunk() int {
	if o.Chunk == 0 {
		return DefaultChunk
	}
	return o.Chunk
}

// MaxSequences is the most requests that are computed at once: for so many rows
// products cost about what they cost for one.
const MaxSequences = 8

func (o *Options) sequences() int {
	if o.Sequences == 0 {
		return MaxSequences
	}
	return o.Sequences
}

// check refuses options that mean nothing.
func (o *Options) check() error {
	switch {
	case o.KV != "" && o.KV != "f16" && o.KV != "int8":
		return badRequest("kv %q, want f16 or int8", o.KV)
	case o.KV == "int8" && o.reference():
		return badRequest("kv int8: the reference path (activations f32) has its cache in float32")
	case o.Activations != "" && o.Activations != "int8" && o.Activations != "f32":
		return badRequest("activations %q, want int8 or f32", o.Activations)
	case o.Chunk < 0 || o.Chunk > maxContext:
		return badRequest("chunk %d, want 1 to %d, or 0 for %d", o.Chunk, maxContext, DefaultChunk)
	case o.Sequences < 0 || o.Sequences > MaxSequences:
		return badRequest("sequences %d, want 1 to %d, or 0 for %d", o.Sequences, MaxSequences, MaxSequences)
	case o.CacheBytes < 0 || o.Saved.MaxBytes < 0:
		return badRequest("cache of %d bytes, %d saved: want 0 or more", o.CacheBytes, o.Saved.MaxBytes)
	case o.Context < 0:
		return badRequest("context %d, want 0 or more", o.Context)
	case o.Residency != "" && !slices.Contains([]string{ResidencyAuto, ResidencyFull, ResidencyExperts, ResidencyLayered}, o.Residency):
		return badRequest("residency %q, want %s, %s, %s or %s", o.Residency, ResidencyAuto, ResidencyFull, ResidencyExperts, ResidencyLayered)
	case o.Threads < 0:
		return badRequest("threads %d, want 0 or more", o.Threads)
	}
	return nil
}

// openLazily is how the engine opens files: it deciphers an encrypted one itself.
func openLazily(path string, o vqf.OpenOptions) (*vqf.File, error) {
	o.Lazy = true
	f, err := vqf.Open(path, o)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	if err := checkKey(f); err != nil {
		_ = f.Close() // the first error tells more
		return nil, err
	}
	return f, nil
}

// openUnread opens a file for its header and directory.
func openUnread(path string, opt Options) (*vqf.File, error) {
	o := opt.VQF
	o.FullCheck, o.Verified = false, true
	return openLazily(path, o)
}

// openChecked opens a file for computing, checked as the options say. One that is
// read whole for that is admitted first, so that what cannot run is refused before
// the work. stamp is from before any of it was read.
func openChecked(path string, opt Options) (f *vqf.File, stamp vqf.Stamp, err error) {
	first, err := openUnread(path, opt)
	if err != nil {
		return nil, stamp, err
	}
	stamp, err = first.Stamp()
	if err == nil && !opt.VQF.FullCheck && (opt.VQF.Verified || !first.Encrypted()) {
		return first, stamp, nil
	}
	if err == nil {
		_, _, err = admit(first, opt)
	}
	if cerr := first.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("engine: %w", cerr)
	}
	if err != nil {
		return nil, stamp, err
	}
	f, err = openLazily(path, opt.VQF)
	return f, stamp, err
}

// keyLimit is above any weight of a norm. Of random bits a third are larger.
const keyLimit = 1e9

// checkKey looks at the final norm of an encrypted file, which is noise under a
// wrong key. It is no check of the file, whose tag was compared before or will
// be; it says at once what else would be noticed late, or not at all where the
// tag is not compared again.
func checkKey(f *vqf.File) error {
	t, ok := f.Tensor("final_norm")
	if !f.Encrypted() || !ok {
		return nil
	}
	b := make([]byte, min(t.Bytes, 4096))
	if err := f.ReadTensor(t.Name, 0, b); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	for i := 0; i+4 <= len(b); i += 4 {
		v := math.Float32frombits(binary.LittleEndian.Uint32(b[i:]))
		if !(v > -keyLimit && v < keyLimit) {
			return fmt.Errorf("engine: %s: what is deciphered is noise: the passphrase is not the one it was encrypted with, "+
				"or the file was changed since it was verified; give the right one (vqf.key_file, the systemd credential vqf-key, or VLLM_VQF_KEY): %w",
				f.Path(), vqf.ErrTag)
		}
	}
	return nil
}

// Load opens a VQF file, checks that this build can run it and that it fits
// opt.MemoryLimit, binds its weights and allocates what a request needs. Of a
// plain file it reads header, directory, norms, tokenizer and metadata; of an
// encrypted one also what stays in memory, and all of it for its tag unless
// opt.VQF says that this was done.
//
// Errors: those of vqf.Open, [ErrUnsupported], [*MemoryError],
// [ErrNoTokenizer], [ErrRequest] for an option.
func Load(path string, opt Options) (m *Model, err error) {
	start := time.Now()
	file, stamp, err := openChecked(path, opt)
	if err != nil {
		return nil, err
	}
	m = &Model{file: file, chunk: opt.chunk()}
	// Deferred after guard below, so that a fault is an error here.
	defer func() {
		if err != nil {
			_ = m.free() // the first error tells more
			m = nil
		}
	}()
	defer guard(&err)()

	need, cfg, err := admit(file, opt)
	if err != nil {
		return m, err
	}
	m.cfg = cfg
	family, err := chooseFamily(file, opt.Family)
	if err != nil {
		return m, err
	}
	cpus, err := opt.cpus()
	if err != nil {
		return m, err
	}
	if m.w, err = bind(file, &m.cfg, family, need, stamp, len(cpus)); err != nil {
		return m, fmt.Errorf("engine: %s: %w", path, err)
	}
	if m.sight, err = openSight(file, opt, need, stamp, len(cpus)); err != nil {
		return m, err
	}
	m.info = Info{
		Path: path, Config: cfg, Flags: file.Flags(), FileBytes: file.Size(), Family: family,
		Layout: m.w.layout.String(), Activations: "int8", Context: need.Context, Sequences: opt.sequences(), Chunk: m.chunk, Need: need,
		imageToken: int32(file.Arch().ImageTokenID), videoToken: int32(file.Arch().VideoTokenID),
	}
	if opt.reference() {
		m.info.Activations = "f32"
	}
	if m.sight != nil {
		m.info.Sight = m.sight.describe()
	}
	if err := m.loadText(opt); err != nil {
		return m, err
	}
	if err := m.allocate(opt, cpus, need.Context); err != nil {
		return m, err
	}
	m.info.Threads = m.pool.Size()
	m.forms = newForms(m)
	m.sched = newScheduler(m, opt.sequences())
	m.restore(opt)
	go m.sched.run()
	m.info.LoadTime = time.Since(start)
	return m, nil
}

// loadText finds tokenizer, metadata and chat template.
func (m *Model) loadText(opt Options) error {
	var err error
	if !opt.NoTokenizer {
		if m.tok, m.info.Tokenizer, err = findTokenizer(m.file); err != nil {
			return err
		}
		if n := m.tok.VocabSize(); n > m.cfg.Vocab {
			return fmt.Errorf("engine: %s: tokenizer (%s) has %d tokens, the model %d: not this model's",
				m.file.Path(), m.info.Tokenizer, n, m.cfg.Vocab)
		}
	}
	if m.meta, err = metaOf(m.file, m.tok); err != nil {
		return err
	}
	m.info.Name, m.info.Architecture = m.meta.Name, m.meta.Architecture
	m.marks = findMarkers(m.tok)
	m.info.Thinks = m.marks.open >= 0
	if m.tok == nil || m.meta.ChatTemplate == "" {
		return nil
	}
	// A template that cannot be parsed leaves generation without one possible.
	m.tmpl, err = tokenizer.ParseTemplate(m.meta.ChatTemplate, tokenizer.TemplateVars{BOS: m.meta.BosToken, EOS: m.meta.EosToken})
	if err != nil {
		m.tmpl, m.info.TemplateErr = nil, err.Error()
	}
	return nil
}

// allocate makes the pool and every buffer.
func (m *Model) allocate(opt Options, cpus []int, ctx int) (err error) {
	if m.pool, err = kernels.NewPool(cpus, opt.Pin); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	if m.kv, err = newPagePool(&m.cfg, int(m.info.Need.KV/kvPageBytes(&m.cfg, opt.kvKind())), opt.kvKind()); err != nil {
		return err
	}
	size := opt.sizes(ctx)
	m.chunk = size.chunk
	m.st = newState(&m.cfg, m.w, m.pool, m.kv, size)
	m.st.axes = newAxes(m.file.Arch())
	m.scratch = newScratch(m.cfg.Vocab)
	m.seq = newSequence(m.kv, ctx)
	m.rows = make([]int, 0, headRows)
	return nil
}

// cpus chooses where the workers run.
func (o *Options) cpus() ([]int, error) {
	topo, err := kernels.DetectTopology()
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	return chooseCPUs(topo, o.Threads)
}

// chooseCPUs takes the big cores, or n of them; the others when more are asked
// for than there are, and the second threads of cores last.
func chooseCPUs(topo kernels.Topology, n int) ([]int, error) {
	list := append(slices.Clone(topo.Big), topo.Little...)
	for _, c := range topo.All {
		if !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	switch {
	case n == 0:
		return list[:len(topo.Big)], nil
	case n <= len(list):
		return list[:n], nil
	default:
		return nil, badRequest("threads %d, this process may use %d CPUs", n, len(list))
	}
}
