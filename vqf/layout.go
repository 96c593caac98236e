// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
)

func (p *parsed) findQ8Layout() (Layout, error) {
	flags, a := p.header.Flags, &p.header.Arch
	switch {
	case p.find("q8_q") == nil:
		return 0, badField("directory", DirOffset, "there are no q8_* tensors").as(ErrUnsupported)
	case flags&FlagQ8BufQ4 != 0:
		return LayoutRow, nil
	case flags&FlagQ8x8 != 0:
		return Layout8x8, nil
	}
	if l, ok, err := p.metaLayout("q8_layout"); err != nil || ok {
		if l == Layout8x8 {
			err = badField(NameMeta, -1, "q8_layout is 8x8, but the Q8_8X8 flag is clear")
		}
		return l, err
	}
	// The gate of the writers that made 4x4 files does not ask for the
	// vocabulary; where only that fails, q8_lm is mixed.
	possible := q8Gate(a, Layout4x4, false) == nil
	row, four, err := p.probe("q8_", Q8BlockBytes, func(h uint16) bool { return h>>15 == 0 && h>>10&31 != 31 })
	switch {
	case err != nil:
		return 0, err
	case !possible && row:
		return LayoutRow, nil
	case possible && row && !four:
		return LayoutRow, nil
	case possible && four && !row && a.VocabSize%4 != 0:
		return 0, badField("flags", 8, "q8_* are 4x4 with a vocabulary of %d, which is not a multiple of 4: q8_lm is partly row-major in such files (hazard 1); convert the model again", a.VocabSize).as(ErrUnsupported)
	case possible && four && !row:
		return Layout4x4, nil
	case row && four:
		return 0, badField("flags", 8, "Q8_8X8 is clear, and the scales fit both row-major and 4x4: ambiguous; convert the model again").as(ErrUnsupported)
	}
	return 0, badField("flags", 8, "Q8_8X8 is clear, and the scales fit neither row-major nor 4x4: damaged, or an unknown layout").as(ErrUnsupported)
}

func (p *parsed) findQ4Layout() (Layout, error) {
	switch {
	case p.find("q4_q") == nil:
		return 0, badField("directory", DirOffset, "there are no q4_* tensors").as(ErrUnsupported)
	case p.header.Flags&FlagQ4x4 != 0:
		return Layout4x4, nil
	}
	if l, ok, err := p.metaLayout("q4_layout"); err != nil || ok {
		if l != LayoutRow {
			err = badField(NameMeta, -1, "q4_layout is %s, but the Q4_4X4 flag is clear", l)
		}
		return LayoutRow, err
	}
	gate := q4Gate(&p.header.Arch)
	if gate == nil {
		return LayoutRow, nil
	}
	// With a closed gate one converter interleaved the matrices that divide
	// all the same, and left the flag clear.
	row, four, err := p.probe("q4_", Q4BlockBytes, func(h uint16) bool { return h>>10&31 != 31 })
	switch {
	case err != nil:
		return 0, err
	case row && !four:
		return LayoutRow, nil
	case four && !row:
		return 0, badField("flags", 8, "Q4_4X4 is clear (%v), but some q4_* are interleaved all the same (hazard 2); convert the model again", gate).as(ErrUnsupported)
	case row && four:
		return 0, badField("flags", 8, "Q4_4X4 is clear (%v), and the scales fit both row-major and 4x4: ambiguous (hazard 2); convert the model again", gate).as(ErrUnsupported)
	}
	return 0, badField("flags", 8, "Q4_4X4 is clear, and the scales fit neither row-major nor 4x4: damaged, or mixed (hazard 2)").as(ErrUnsupported)
}

// metaLayout reads a layout word of t_meta. ok is false if there is none.
func (p *parsed) metaLayout(key string) (l Layout, ok bool, err error) {
	b, err := p.extra(NameMeta)
	if b == nil || err != nil {
		return 0, false, err
	}
	var meta map[string]json.RawMessage
	var word string
	if err := json.Unmarshal(b, &meta); err != nil {
		return 0, false, badField(NameMeta, -1, "is no JSON object: %v", err)
	}
	raw, ok := meta[key]
	if !ok {
		return 0, false, nil
	}
	if err := json.Unmarshal(raw, &word); err == nil {
		l, err = ParseLayout(word)
		if err == nil {
			return l, true, nil
		}
	}
	return 0, false, badField(NameMeta, -1, "%s is %s, want \"8x8\", \"4x4\" or \"row\"", key, raw)
}

// Samples of the layout probe: runs of whole 4-row groups, spread over each
// matrix. Enough that a wrong reading cannot pass by chance, few enough that a
// load stays a matter of pages.
const (
	probeRuns   = 8
	probeGroups = 32 // groups a run
)

// probe looks at scales of the family's per-layer tensors under two readings.
// row says that all scales are plausible where row-major blocks would have
// them, four the same for 4x4 groups. The first scale of a group stands at the
// same byte in both and says nothing.
func (p *parsed) probe(prefix string, block int, plausible func(half uint16) bool) (row, four bool, err error) {
	group := 4 * block
	row, four = true, true
	for _, t := range p.tensors {
		if !strings.HasPrefix(t.Name, prefix) || strings.HasSuffix(t.Name, "_lm") {
			continue
		}
		groups := int64(t.Bytes) / int64(group)
		run := min(groups, probeGroups)
		buf := make([]byte, run*int64(group))
		for i := range int64(probeRuns) {
			at := (groups - run) * i / (probeRuns - 1)
			if err := readFull(p.r, buf, int64(t.Offset)+at*int64(group)); err != nil {
				return false, false, fmt.Errorf("vqf: probe of %q: %w", t.Name, err)
			}
			for g := 0; g < len(buf); g += group {
				for r := 1; r < 4; r++ {
					row = row && plausible(binary.LittleEndian.Uint16(buf[g+r*block:]))
					four = four && plausible(binary.LittleEndian.Uint16(buf[g+2*r:]))
				}
			}
		}
	}
	return row, four, nil
}
