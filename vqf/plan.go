// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"fmt"
	"math"
)

// Mode is which copies of the weights a file holds, docs/FORMAT.md section 5.3.
type Mode string

// The modes.
const (
	ModeDual Mode = "dual" // q8_* and q4_*
	ModeQ8   Mode = "q8"
	ModeQ4   Mode = "q4"
	ModeQ4I  Mode = "q4i"  // q8_* holding Q4 codes as int8
	ModeG256 Mode = "g256" // q8_* with a scale per 256 elements
)

// HasQ8 says whether the mode writes q8_* tensors.
func (m Mode) HasQ8() bool { return m == ModeDual || m == ModeQ8 || m == ModeQ4I || m == ModeG256 }

// HasQ4 says whether the mode writes q4_* tensors.
func (m Mode) HasQ4() bool { return m == ModeDual || m == ModeQ4 }

// Spec says what file to write.
type Spec struct {
	Arch   Arch
	Mode   Mode
	Q8, Q4 Layout // as DefaultLayouts gives them; recorded even for a family that is absent
	Vision bool   // write the vision tensors
	EmbF32 bool   // token_embed in F32 instead of F16
	Fields int    // header: 41 or 45 fields; 0: 41 for a dense model, 45 for experts, encrypted and signed files
	Extra  []Extra

	Encrypt bool // the Writer needs CreateOptions.Key
	Signed  bool // the Writer needs CreateOptions.Sign
}

// Extra is an entry after the tensors that carries bytes, stored as
// docs/FORMAT.md section 16 says: NameTokenizer, NameMeta.
type Extra struct {
	Name string
	Size int64 // most bytes it will take; zeros fill the rest
}

// Plan is a file whose every header field and entry is settled, and no data.
type Plan struct {
	Header  Header
	Tensors []Tensor // in file order
}

// Bounds of the bytes of embedded entries: MaxMeta of t_meta, MaxExtra of others.
const (
	MaxExtra = 256 << 20
	MaxMeta  = 16 << 20
)

func maxExtra(name string) uint64 {
	if name == NameMeta {
		return MaxMeta
	}
	return MaxExtra
}

// DefaultLayouts applies the gates of docs/FORMAT.md section 6.10: the wanted
// Q8 layout and 4x4 for Q4 where the model's geometry allows, else row-major.
func DefaultLayouts(a Arch, m Mode, want Layout) (q8, q4 Layout) {
	if m != ModeQ4I && want != LayoutRow && q8Gate(&a, want, m.HasQ8()) == nil {
		q8 = want
	}
	if q4Gate(&a) == nil {
		q4 = Layout4x4
	}
	return q8, q4
}

// q8Gate says why a model cannot be tiled by l, or nil. lm says whether a
// q8_lm exists, whose rows are the vocabulary.
func q8Gate(a *Arch, l Layout, lm bool) error {
	g := l.group()
	for _, f := range []struct {
		name string
		v    uint64
	}{{"n_heads*head_dim", a.QDim()}, {"n_kv_heads*head_dim", a.KVDim()}, {"ffn_dim", uint64(a.FFNDim)}, {"dim", uint64(a.Dim)}} {
		if f.v%uint64(g) != 0 {
			return fmt.Errorf("%s = %d is not a multiple of %d", f.name, f.v, g)
		}
	}
	if lm && a.VocabSize%g != 0 {
		return fmt.Errorf("vocab_size = %d is not a multiple of %d", a.VocabSize, g)
	}
	return nil
}

// q4Gate says why a model's Q4 tensors cannot be 4x4, or nil.
func q4Gate(a *Arch) error { return q8Gate(a, Layout4x4, true) }

// NewPlan derives the whole header and directory from the specification.
func NewPlan(s Spec) (*Plan, error) {
	moe := s.Arch.MoE()
	if s.Arch.HeadDimFull == 0 {
		s.Arch.HeadDimFull = s.Arch.HeadDim
	}
	if err := checkArch(&s.Arch, moe, s.Vision); err != nil {
		return nil, err
	}
	p := &Plan{Header: Header{Version: VersionDense, Arch: s.Arch, Fields: s.Fields}}
	h := &p.Header
	if moe {
		h.Version, h.Flags = VersionMoE, FlagMoE
	}
	if s.Encrypt {
		h.Flags |= FlagEnc
	}
	if s.Signed {
		h.Flags |= FlagSigned
	}
	switch sealed := s.Encrypt || s.Signed; {
	case h.Fields == 0 && (moe || sealed):
		h.Fields = 45
	case h.Fields == 0:
		h.Fields = 41
	case h.Fields != 41 && h.Fields != 45:
		return nil, fmt.Errorf("vqf: plan: no header of %d fields: use 41 or 45", h.Fields)
	case h.Fields == 41 && moe:
		return nil, fmt.Errorf("vqf: plan: the 41-field header has no place for experts: use 45")
	case h.Fields == 41 && sealed:
		return nil, fmt.Errorf("vqf: plan: encrypted and signed files are written with the 45-field header: use 45")
	}
	if err := h.layoutFlags(&s); err != nil {
		return nil, err
	}
	if !s.EmbF32 {
		h.Flags |= FlagEmbF16
	}
	if err := p.list(&s, moe); err != nil {
		return nil, err
	}
	return p, p.chain()
}

// layoutFlags sets the layout bits. They mirror the layouts chosen, even for a
// family the file lacks, docs/FORMAT.md section 4.
func (h *Header) layoutFlags(s *Spec) error {
	switch s.Mode {
	case ModeDual, ModeQ8, ModeQ4:
	case ModeG256:
		h.Flags |= FlagG256
	case ModeQ4I:
		h.Flags |= FlagQ8BufQ4
		if s.Q8 != LayoutRow {
			return fmt.Errorf("vqf: plan: q4i is row-major, not %s", s.Q8)
		}
	default:
		return fmt.Errorf("vqf: plan: unknown mode %q: use dual, q4, q8, q4i or g256", s.Mode)
	}
	if s.Q8 > Layout8x8 || s.Q4 > Layout4x4 {
		return fmt.Errorf("vqf: plan: no such layout: q8 %s, q4 %s", s.Q8, s.Q4)
	}
	if s.Q8 != LayoutRow {
		if err := q8Gate(&s.Arch, s.Q8, s.Mode.HasQ8()); err != nil {
			return fmt.Errorf("vqf: plan: q8 in %s: %w; write it row-major", s.Q8, err)
		}
	}
	if s.Q4 != LayoutRow {
		if err := q4Gate(&s.Arch); err != nil {
			return fmt.Errorf("vqf: plan: q4 in %s: %w; write it row-major", s.Q4, err)
		}
	}
	if s.Q8 == Layout8x8 {
		h.Flags |= FlagQ8x8
	}
	if s.Q4 == Layout4x4 {
		h.Flags |= FlagQ4x4
	}
	return nil
}

// list makes the entries, without offsets.
func (p *Plan) list(s *Spec, moe bool) error {
	items := textItems(&s.Arch, !s.EmbF32, moe)
	if s.Vision {
		p.Header.Flags |= FlagVision
		items = append(items, visionItems(&s.Arch)...)
	}
	for i := range items {
		it := &items[i]
		switch {
		case it.fam == famQKNorm && s.Arch.HasQNorm == 0,
			it.fam == famQ8 && !s.Mode.HasQ8(),
			it.fam == famQ4 && !s.Mode.HasQ4(),
			it.fam == famX8:
			continue
		}
		n, err := it.size()
		if err != nil {
			return err
		}
		p.Tensors = append(p.Tensors, Tensor{Name: it.name, Type: it.typ, Rows: uint32(it.rows), Cols: uint32(it.cols), Bytes: n})
	}
	return p.addExtra(s.Extra)
}

// Add appends entries that carry bytes to a finished plan and settles its
// offsets and lengths anew: a file as it is, with more in it.
// A signature covers the directory, so that a signed file is refused.
func (p *Plan) Add(extra ...Extra) error {
	if p.Header.Flags&FlagSigned != 0 {
		return fmt.Errorf("vqf: plan: the file is signed, and an entry more would break its signature: %w", ErrUnsupported)
	}
	if err := p.addExtra(extra); err != nil {
		return err
	}
	return p.chain()
}

func (p *Plan) addExtra(extra []Extra) error {
	for _, e := range extra {
		if e.Name != NameTokenizer && e.Name != NameMeta {
			return fmt.Errorf("vqf: plan: extra entry %q: only %s and %s can be embedded", e.Name, NameTokenizer, NameMeta)
		}
		if e.Size <= 0 || uint64(e.Size) > maxExtra(e.Name) {
			return fmt.Errorf("vqf: plan: extra entry %q: %d bytes, want 1 to %d", e.Name, e.Size, maxExtra(e.Name))
		}
		for _, t := range p.Tensors {
			if t.Name == e.Name {
				return fmt.Errorf("vqf: plan: extra entry %q is there twice", e.Name)
			}
		}
		n := roundUp(uint64(e.Size), Align)
		p.Tensors = append(p.Tensors, Tensor{Name: e.Name, Type: F32, Rows: uint32(n / 4), Cols: 1, Bytes: n})
	}
	return nil
}

// chain fills in offsets and lengths, docs/FORMAT.md section 3.2.
func (p *Plan) chain() error {
	h := &p.Header
	h.NTensors = uint32(len(p.Tensors))
	at := roundUp(DirOffset+EntrySize*uint64(len(p.Tensors)), DataAlign)
	h.DataOffset = at
	for i := range p.Tensors {
		t := &p.Tensors[i]
		t.Offset = at
		if t.Bytes > math.MaxInt64/2-at {
			return fmt.Errorf("vqf: plan: tensor %q ends past 62 bits", t.Name)
		}
		at = roundUp(at+t.Bytes, Align)
	}
	h.FileLen = at
	return nil
}

// Size is the length of the finished file.
func (p *Plan) Size() int64 { return int64(p.Header.FileLen + p.Header.TrailerLen()) }

// Tensor returns the entry of that name.
func (p *Plan) Tensor(name string) (Tensor, bool) {
	for _, t := range p.Tensors {
		if t.Name == name {
			return t, true
		}
	}
	return Tensor{}, false
}

// Prefix returns the file's bytes before the data area: header, directory and
// the zeros between and after them.
func (p *Plan) Prefix() []byte {
	b := make([]byte, DirOffset, p.Header.DataOffset)
	copy(b, p.Header.encode())
	b = append(b, p.directory()...)
	return append(b, make([]byte, p.Header.DataOffset-uint64(len(b)))...)
}

func (p *Plan) directory() []byte {
	b := make([]byte, 0, EntrySize*len(p.Tensors))
	for i := range p.Tensors {
		b = p.Tensors[i].appendEntry(b)
	}
	return b
}
