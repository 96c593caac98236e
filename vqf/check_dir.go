// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"slices"
)

// checkDirectory holds every entry against the file and against the
// architecture, docs/FORMAT.md section 3.3. Order and gaps are free here: a
// reader binds tensors by name.
func checkDirectory(h *Header, ts []Tensor) error {
	if err := checkBounds(h, ts); err != nil {
		return err
	}
	if err := checkOverlap(ts); err != nil {
		return err
	}
	if err := checkNames(ts); err != nil {
		return err
	}
	names := index(ts)
	vision := hasVision(names)
	if err := checkArch(&h.Arch, h.MoE(), vision); err != nil {
		return err
	}
	items := textItems(&h.Arch, h.Flags&FlagEmbF16 != 0, h.MoE())
	if vision {
		items = append(items, visionItems(&h.Arch)...)
	}
	for i := range items {
		it := &items[i]
		if j, ok := names[it.name]; ok {
			if err := ts[j].matches(j, it); err != nil {
				return err
			}
		}
	}
	for _, name := range []string{NameTokenizer, NameMeta} {
		if j, ok := names[name]; ok {
			if err := ts[j].checkExtra(j); err != nil {
				return err
			}
		}
	}
	return checkRequired(h, items, names)
}

// index maps names to entries.
func index(ts []Tensor) map[string]int {
	names := make(map[string]int, len(ts))
	for i := range ts {
		names[ts[i].Name] = i
	}
	return names
}

// checkNames refuses a name that is there twice.
func checkNames(ts []Tensor) error {
	names := make(map[string]int, len(ts))
	for i := range ts {
		if first, dup := names[ts[i].Name]; dup {
			return ts[i].bad(i, "name", 0, "is there twice, first as entry %d", first)
		}
		names[ts[i].Name] = i
	}
	return nil
}

// checkBounds looks at each entry alone.
func checkBounds(h *Header, ts []Tensor) error {
	for i := range ts {
		t := &ts[i]
		if err := t.aligned(i); err != nil {
			return err
		}
		switch {
		case t.Offset < h.DataOffset:
			return t.bad(i, "offset", entryOffset, "%d is before data_offset %d", t.Offset, h.DataOffset)
		case t.Offset > h.FileLen || t.Bytes > h.FileLen-t.Offset:
			return t.bad(i, "offset", entryOffset, "%d + %d bytes ends past file_len %d", t.Offset, t.Bytes, h.FileLen)
		}
		if err := t.formula(i); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tensor) aligned(i int) error {
	if t.Offset%Align != 0 {
		return t.bad(i, "offset", entryOffset, "%d is not a multiple of %d", t.Offset, Align)
	}
	return nil
}

// formula holds bytes to rows, cols and type. An unknown name may have an
// unknown type, which has no formula; a known name is held to its own type.
func (t *Tensor) formula(i int) error {
	if !t.Type.known() {
		return nil
	}
	want, err := t.Type.Size(t.Rows, t.Cols)
	if err != nil || t.Bytes != want {
		return t.bad(i, "bytes", entryBytes, "is %d, but %d x %d values of %s take %d", t.Bytes, t.Rows, t.Cols, t.Type, want)
	}
	return nil
}

// checkOverlap compares neighbours in file order; empty entries cover nothing.
func checkOverlap(ts []Tensor) error {
	order := make([]int, 0, len(ts))
	for i := range ts {
		if ts[i].Bytes > 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case ts[a].Offset < ts[b].Offset:
			return -1
		case ts[a].Offset > ts[b].Offset:
			return 1
		}
		return a - b
	})
	for k := 1; k < len(order); k++ {
		prev, t := &ts[order[k-1]], &ts[order[k]]
		if end := prev.Offset + prev.Bytes; t.Offset < end {
			return t.bad(order[k], "offset", entryOffset, "%d lies inside tensor %q, which ends at %d", t.Offset, prev.Name, end)
		}
	}
	return nil
}

// matches holds a known tensor to what the architecture gives it.
func (t *Tensor) matches(i int, it *item) error {
	if t.Type != it.typ {
		if it.name == "token_embed" && (t.Type == F16 || t.Type == F32) {
			return t.bad(i, "qtype", entryType, "is %s, but the EMB_F16 flag says %s", t.Type, it.typ)
		}
		return t.bad(i, "qtype", entryType, "is %s, want %s", t.Type, it.typ)
	}
	want, err := it.size()
	if err != nil {
		return err
	}
	if t.Bytes != want {
		return t.bad(i, "bytes", entryBytes, "is %d, but the architecture gives %d", t.Bytes, want)
	}
	return nil
}

// checkExtra holds t_tokenizer and t_meta to docs/FORMAT.md section 16.
func (t *Tensor) checkExtra(i int) error {
	switch {
	case t.Type != F32:
		return t.bad(i, "qtype", entryType, "is %s, want F32", t.Type)
	case t.Cols != 1:
		return t.bad(i, "cols", entryCols, "is %d, want 1", t.Cols)
	case t.Rows == 0 || t.Rows%(Align/4) != 0:
		return t.bad(i, "rows", entryRows, "is %d, want a multiple of 16", t.Rows)
	case t.Bytes > maxExtra(t.Name):
		return t.bad(i, "bytes", entryBytes, "is %d, want at most %d", t.Bytes, maxExtra(t.Name))
	}
	return nil
}

// hasVision says whether any vision tensor of the catalogue is there.
func hasVision(names map[string]int) bool {
	for _, it := range visionItems(&Arch{}) {
		if _, ok := names[it.name]; ok {
			return true
		}
	}
	return false
}

// checkRequired refuses a file that lacks a tensor of a family it has.
func checkRequired(h *Header, items []item, names map[string]int) error {
	var q8, q4 bool
	for i := range items {
		_, ok := names[items[i].name]
		q8 = q8 || ok && items[i].fam == famQ8
		q4 = q4 || ok && items[i].fam == famQ4
	}
	if !q8 && !q4 {
		return badField("directory", DirOffset, "missing core tensors: neither q8_* nor q4_* are there")
	}
	for i := range items {
		it := &items[i]
		_, ok := names[it.name]
		need, why := true, "every file has it"
		switch it.fam {
		case famQKNorm:
			need, why = h.Arch.HasQNorm != 0, "has_q_norm is 1"
			if ok && !need {
				return archField("has_q_norm", "is 0, but there is a tensor %q", it.name)
			}
		case famRouter:
			why = "the model is a mixture of experts"
		case famQ8:
			need, why = q8, "other q8_* are there"
		case famQ4:
			need, why = q4, "other q4_* are there"
		case famX8:
			need = false
		case famVision:
			why = "other vision tensors are there"
		case famDeepstack:
			need, why = h.Arch.VisDSCount != 0, "vis_ds_count is not 0"
		}
		if need && !ok {
			return badField("directory", DirOffset, "tensor %q is missing: %s", it.name, why)
		}
	}
	if _, ok := names["moe_router"]; ok && !h.MoE() {
		return badField("flags", 8, "MOE is clear and the version is %d, but there is a moe_router", h.Version)
	}
	return nil
}
