// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
)

// Q8Layout says how the text q8_* tensors are laid out, docs/FORMAT.md section
// 7.8. The flag decides where it can; where it is clear the file's metadata
// does, and else a look at the scales. The error is a file without q8_*
// tensors, or one that fits two layouts or none; the answer is kept.
func (f *File) Q8Layout() (Layout, error) {
	f.q8once.Do(func() { f.q8layout, f.q8err = f.findQ8Layout() })
	return f.q8layout, withPath(f.q8err, f.path)
}

// Q4Layout is Q8Layout for the q4_* tensors.
func (f *File) Q4Layout() (Layout, error) {
	f.q4once.Do(func() { f.q4layout, f.q4err = f.findQ4Layout() })
	return f.q4layout, withPath(f.q4err, f.path)
}

func (f *File) findQ8Layout() (Layout, error) {
	flags, a := f.header.Flags, &f.header.Arch
	switch {
	case !f.HasQ8():
		return 0, badField("directory", DirOffset, "there are no q8_* tensors").as(ErrUnsupported)
	case flags&FlagQ8BufQ4 != 0:
		return LayoutRow, nil
	case flags&FlagQ8x8 != 0:
		return Layout8x8, nil
	}
	if l, ok, err := f.metaLayout("q8_layout"); err != nil || ok {
		if l == Layout8x8 {
			err = badField(NameMeta, -1, "q8_layout is 8x8, but the Q8_8X8 flag is clear")
		}
		return l, err
	}
	// The gate of the writers that made 4x4 files does not ask for the
	// vocabulary; where only that fails, q8_lm is mixed.
	possible := q8Gate(a, Layout4x4, false) == nil
	row, four, err := f.probe("q8_", Q8BlockBytes, func(h uint16) bool { return h>>15 == 0 && h>>10&31 != 31 })
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

func (f *File) findQ4Layout() (Layout, error) {
	switch {
	case !f.HasQ4():
		return 0, badField("directory", DirOffset, "there are no q4_* tensors").as(ErrUnsupported)
	case f.header.Flags&FlagQ4x4 != 0:
		return Layout4x4, nil
	}
	if l, ok, err := f.metaLayout("q4_layout"); err != nil || ok {
		if l != LayoutRow {
			err = badField(NameMeta, -1, "q4_layout is %s, but the Q4_4X4 flag is clear", l)
		}
		return LayoutRow, err
	}
	gate := q4Gate(&f.header.Arch)
	if gate == nil {
		return LayoutRow, nil
	}
	// With a closed gate one converter interleaved the matrices that divide
	// all the same, and left the flag clear.
	row, four, err := f.probe("q4_", Q4BlockBytes, func(h uint16) bool { return h>>10&31 != 31 })
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
func (f *File) metaLayout(key string) (l Layout, ok bool, err error) {
	b := f.Meta()
	if b == nil {
		return 0, false, nil
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
func (f *File) probe(prefix string, block int, plausible func(half uint16) bool) (row, four bool, err error) {
	group := 4 * block
	row, four = true, true
	for _, t := range f.tensors {
		if !strings.HasPrefix(t.Name, prefix) || strings.HasSuffix(t.Name, "_lm") {
			continue
		}
		groups := int64(t.Bytes) / int64(group)
		run := min(groups, probeGroups)
		buf := make([]byte, run*int64(group))
		for i := range int64(probeRuns) {
			at := (groups - run) * i / (probeRuns - 1)
			if err := readFull(f.f, buf, int64(t.Offset)+at*int64(group)); err != nil {
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
