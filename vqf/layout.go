// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"strings"
)

// findQ8Layout decides by flag, then by t_meta's word, then by the scales. What
// flag or word say is held against the scales too: a reader that computed with
// the wrong layout would answer nonsense without a sign.
func (p *parsed) findQ8Layout() (Layout, error) {
	flags, a := p.header.Flags, &p.header.Arch
	said, told, err := LayoutRow, true, error(nil)
	switch {
	case p.find("q8_q") == nil:
		return 0, badField("directory", DirOffset, "there are no q8_* tensors").as(ErrUnsupported)
	case flags&FlagQ8BufQ4 != 0:
	case flags&FlagQ8x8 != 0:
		said = Layout8x8
	default:
		said, told, err = p.metaLayout("q8_layout")
		if err == nil && told && said == Layout8x8 {
			err = badField(NameMeta, -1, "q8_layout is 8x8, but the Q8_8X8 flag is clear")
		}
	}
	if err != nil {
		return 0, err
	}
	fits, err := p.probe("q8_", Q8BlockBytes, scaleTest(flags))
	if err != nil {
		return 0, err
	}
	if told {
		if !fits[said] {
			return 0, badField("flags", 8, "the file says that q8_* are %s, but their scales are not: wrong flags, or damaged", said)
		}
		return said, nil
	}
	// The writers that made 4x4 files did not ask whether the vocabulary
	// divides; where only that fails, q8_lm is mixed.
	row, four := fits[LayoutRow], fits[Layout4x4] && q8Gate(a, Layout4x4, false) == nil
	switch {
	case row && four:
		return 0, badField("flags", 8, "Q8_8X8 is clear, and the scales of q8_* fit both row-major and 4x4: ambiguous; convert the model again").as(ErrUnsupported)
	case row:
		return LayoutRow, nil
	case four && a.VocabSize%4 != 0:
		return 0, badField("flags", 8, "q8_* are 4x4 with a vocabulary of %d, which is not a multiple of 4: q8_lm is partly row-major in such files (hazard 1); convert the model again", a.VocabSize).as(ErrUnsupported)
	case four:
		return Layout4x4, nil
	}
	return 0, badField("flags", 8, "Q8_8X8 is clear, and the scales of q8_* fit neither row-major nor 4x4: wrong flags, or damaged")
}

// findQ4Layout is findQ8Layout for q4_*, where a clear flag means row-major.
func (p *parsed) findQ4Layout() (Layout, error) {
	if p.find("q4_q") == nil {
		return 0, badField("directory", DirOffset, "there are no q4_* tensors").as(ErrUnsupported)
	}
	fits, err := p.probe("q4_", Q4BlockBytes, finite)
	if err != nil {
		return 0, err
	}
	if p.header.Flags&FlagQ4x4 != 0 {
		if !fits[Layout4x4] {
			return 0, badField("flags", 8, "Q4_4X4 is set, but the scales of q4_* are not 4x4: wrong flags, or damaged")
		}
		return Layout4x4, nil
	}
	said, told, err := p.metaLayout("q4_layout")
	switch {
	case err != nil:
		return 0, err
	case told && said != LayoutRow:
		return 0, badField(NameMeta, -1, "q4_layout is %s, but the Q4_4X4 flag is clear", said)
	}
	// With a closed gate one converter interleaved the matrices that divide
	// all the same, and left the flag clear.
	gate := q4Gate(&p.header.Arch)
	switch {
	case fits[LayoutRow] && (told || gate == nil || !fits[Layout4x4]):
		return LayoutRow, nil
	case fits[LayoutRow]:
		return 0, badField("flags", 8, "Q4_4X4 is clear (%v), and the scales of q4_* fit both row-major and 4x4: ambiguous (hazard 2); convert the model again", gate).as(ErrUnsupported)
	case gate != nil && !told:
		return 0, badField("flags", 8, "Q4_4X4 is clear (%v), but some q4_* are interleaved all the same (hazard 2); convert the model again", gate).as(ErrUnsupported)
	}
	return 0, badField("flags", 8, "Q4_4X4 is clear, but the scales of q4_* are not row-major: wrong flags, or damaged")
}

// metaLayout reads a layout word of t_meta. ok is false if there is none.
func (p *parsed) metaLayout(key string) (l Layout, ok bool, err error) {
	b, err := p.extra(NameMeta)
	if b == nil || err != nil {
		return 0, false, err
	}
	var meta struct {
		Q8 json.RawMessage `json:"q8_layout"`
		Q4 json.RawMessage `json:"q4_layout"`
	}
	var word string
	if err := json.Unmarshal(b, &meta); err != nil {
		return 0, false, badField(NameMeta, -1, "is no JSON object: %v", err)
	}
	raw := meta.Q8
	if key == "q4_layout" {
		raw = meta.Q4
	}
	if raw == nil {
		return 0, false, nil
	}
	if err := json.Unmarshal(raw, &word); err == nil {
		l, err = ParseLayout(word)
		if err == nil {
			return l, true, nil
		}
	}
	return 0, false, badField(NameMeta, -1, "%s is %.40s, want \"8x8\", \"4x4\" or \"row\"", key, raw)
}

// finite says that a half is a number; any Q4 scale is.
func finite(half uint16) bool { return half>>10&31 != 31 }

// scaleTest is what holds for the scales of q8_*: never negative, unless they
// come from Q4.
func scaleTest(flags Flags) func(half uint16) bool {
	if flags&FlagQ8BufQ4 != 0 {
		return finite
	}
	return func(half uint16) bool { return finite(half) && half>>15 == 0 }
}

// The layout probe reads runs spread over each matrix: enough that a wrong
// reading cannot pass by chance, few enough that a load stays a matter of pages.
const (
	probeRuns   = 8
	probeGroups = 16 // groups of 8 rows a run
)

// probe looks at scales of a family's per-layer tensors, and says for each
// layout whether all of them are plausible where it would have them. Right is
// always plausible; wrong reads codes as scales, and of those about half (Q8)
// or one in sixty (Q4) are not.
//
// Nothing of it stays in the page cache: a page here and there, and what is read
// ahead around it, would keep the kernel from mapping the weights by huge pages.
func (p *parsed) probe(prefix string, block int, plausible func(half uint16) bool) (fits [Layout8x8 + 1]bool, err error) {
	fits = [...]bool{true, true, true}
	unit := int64(8 * block) // whole groups in every layout
	file, plain := p.plain.(*os.File)
	if plain {
		readAhead(file, false)
		defer readAhead(file, true)
	}
	for _, t := range p.tensors {
		if !strings.HasPrefix(t.Name, prefix) || strings.HasSuffix(t.Name, "_lm") {
			continue
		}
		run := min(int64(t.Bytes)/unit, probeGroups)
		buf := make([]byte, run*unit)
		last := int64(t.Bytes)/unit - run
		for i := range int64(probeRuns) {
			at := int64(t.Offset) + last*i/(probeRuns-1)*unit
			if err := readFull(p.plain, buf, at); err != nil {
				return fits, err
			}
			if plain {
				forget(file, at, int64(len(buf)))
			}
			for l := range fits {
				fits[l] = fits[l] && scalesFit(buf, Layout(l), block, plausible)
			}
			if last == 0 {
				break
			}
		}
	}
	return fits, nil
}

// scalesFit looks at the scales of groups from the start of b on.
func scalesFit(b []byte, l Layout, block int, plausible func(half uint16) bool) bool {
	rows := int(l.group())
	for ; len(b) >= rows*block; b = b[rows*block:] {
		for m := range rows {
			if !plausible(binary.LittleEndian.Uint16(b[2*m:])) {
				return false
			}
		}
	}
	return true
}
