// SPDX-License-Identifier: Apache-2.0

package vqf

import "math"

// Names of the entries that carry a tokenizer and what else a model needs,
// docs/FORMAT.md section 16.
const (
	NameTokenizer = "t_tokenizer"
	NameMeta      = "t_meta"
)

// family groups catalogue entries that come and go together.
type family uint8

const (
	famCore   family = iota // token_embed and the norms
	famQKNorm               // iff has_q_norm
	famRouter               // iff MoE
	famQ8
	famQ4
	famX8
	famVision
	famDeepstack // vision, absent or empty without deepstack mergers
)

// item is what the architecture says about one known tensor.
type item struct {
	name       string
	fam        family
	typ        QType
	rows, cols uint64 // as the directory lists them
	// The matrices inside, one after the other: parts of mrows x mcols.
	parts, mrows, mcols uint64
}

// matrices are the suffixes of the quantised text tensors in file order.
var matrices = [...]string{"q", "k", "v", "o", "gate", "up", "down", "lm"}

// textItems lists the text tensors that an architecture can have, in file
// order, docs/FORMAT.md section 5.1. Products saturate; item.size refuses them.
func textItems(a *Arch, embF16, moe bool) []item {
	nl, dim, ff, vc := uint64(a.NLayers), uint64(a.Dim), uint64(a.FFNDim), uint64(a.VocabSize)
	qo, ko, hd := a.QDim(), a.KVDim(), uint64(a.HeadDim)
	embed := F32
	if embF16 {
		embed = F16
	}
	items := []item{
		{"token_embed", famCore, embed, vc, dim, 1, vc, dim},
		{"final_norm", famCore, F32, dim, 1, 1, 1, dim},
		{"attn_norm", famCore, F32, mulSat(nl, dim), 1, nl, 1, dim},
		{"ffn_norm", famCore, F32, mulSat(nl, dim), 1, nl, 1, dim},
		{"q_norm", famQKNorm, F32, mulSat(nl, hd), 1, nl, 1, hd},
		{"k_norm", famQKNorm, F32, mulSat(nl, hd), 1, nl, 1, hd},
	}
	if moe {
		ne := uint64(a.NExperts)
		items = append(items, item{"moe_router", famRouter, F32, mulSat(nl, ne), dim, nl, ne, dim})
	}
	for _, f := range []struct {
		prefix string
		fam    family
		typ    QType
	}{{"q8_", famQ8, Q8_0}, {"q4_", famQ4, Q4_0}, {"x8_", famX8, Q4_8X8L}} {
		shapes := [...]item{
			{rows: mulSat(nl, dim), cols: qo, parts: nl, mrows: qo, mcols: dim},
			{rows: mulSat(nl, dim), cols: ko, parts: nl, mrows: ko, mcols: dim},
			{rows: mulSat(nl, dim), cols: ko, parts: nl, mrows: ko, mcols: dim},
			{rows: mulSat(nl, qo), cols: dim, parts: nl, mrows: dim, mcols: qo},
			{rows: mulSat(nl, ff), cols: dim, parts: nl, mrows: ff, mcols: dim},
			{rows: mulSat(nl, ff), cols: dim, parts: nl, mrows: ff, mcols: dim},
			{rows: mulSat(nl, dim), cols: ff, parts: nl, mrows: dim, mcols: ff},
			{rows: vc, cols: dim, parts: 1, mrows: vc, mcols: dim},
		}
		for i, it := range shapes {
			if f.fam == famX8 && matrices[i] == "lm" {
				continue
			}
			it.name, it.fam, it.typ = f.prefix+matrices[i], f.fam, f.typ
			items = append(items, it)
		}
	}
	return items
}

// visionItems lists the 27 vision tensors in file order, docs/FORMAT.md
// section 11.2.
func visionItems(a *Arch) []item {
	vd, vh, vf := uint64(a.VisDepth), uint64(a.VisHidden), uint64(a.VisFFN)
	vp, vt, vm := uint64(a.VisPatch), uint64(a.VisTemporal), uint64(a.VisMerge)
	mi, od, ds := mulSat(vh, vm, vm), uint64(a.VisOutDim), uint64(a.VisDSCount)
	vfPad := roundUp(vf, BlockLen)
	patch := mulSat(3, vt, vp, vp)
	q8 := func(name string, rows, cols uint64) item {
		return item{name, famVision, Q8_0, vd, mulSat(rows, cols), vd, rows, cols}
	}
	f32 := func(name string, fam family, parts, rows, cols uint64) item {
		return item{name, fam, F32, parts, mulSat(rows, cols), parts, rows, cols}
	}
	return []item{
		q8("v_q8_qkv", mulSat(3, vh), vh),
		q8("v_q8_proj", vh, vh),
		q8("v_q8_fc1", vf, vh),
		q8("v_q8_fc2", vh, vfPad),
		f32("v_patch_embed", famVision, 1, vh, patch),
		f32("v_patch_bias", famVision, 1, 1, vh),
		f32("v_pos_embed", famVision, 1, uint64(a.VisMaxPos), vh),
		f32("v_qkv_bias", famVision, vd, 1, mulSat(3, vh)),
		f32("v_proj_bias", famVision, vd, 1, vh),
		f32("v_norm1_w", famVision, vd, 1, vh),
		f32("v_norm1_b", famVision, vd, 1, vh),
		f32("v_norm2_w", famVision, vd, 1, vh),
		f32("v_norm2_b", famVision, vd, 1, vh),
		f32("v_fc1_bias", famVision, vd, 1, vf),
		f32("v_fc2_bias", famVision, vd, 1, vh),
		f32("v_merger_nw", famVision, 1, 1, vh),
		f32("v_merger_nb", famVision, 1, 1, vh),
		f32("v_merger_f1w", famVision, 1, mi, mi),
		f32("v_merger_f1b", famVision, 1, 1, mi),
		f32("v_merger_f2w", famVision, 1, od, mi),
		f32("v_merger_f2b", famVision, 1, 1, od),
		f32("v_ds_nw", famDeepstack, ds, 1, mi),
		f32("v_ds_nb", famDeepstack, ds, 1, mi),
		f32("v_ds_f1w", famDeepstack, ds, mi, mi),
		f32("v_ds_f1b", famDeepstack, ds, 1, mi),
		f32("v_ds_f2w", famDeepstack, ds, od, mi),
		f32("v_ds_f2b", famDeepstack, ds, 1, od),
	}
}

// size is the payload the architecture gives the tensor. The error is a shape
// that the directory's 32-bit fields or a file cannot hold.
func (it *item) size() (uint64, error) {
	if it.rows > math.MaxUint32 || it.cols > math.MaxUint32 {
		return 0, badField("arch", archOffset, "gives tensor %q a shape past 32 bits: absurd values", it.name)
	}
	n, err := it.typ.Size(uint32(it.rows), uint32(it.cols))
	if err != nil || n > math.MaxInt64/2 {
		return 0, badField("arch", archOffset, "gives tensor %q a size past 62 bits: absurd values", it.name)
	}
	return n, nil
}

// Shape is how a tensor's matrices lie in its bytes: Parts of them one after
// the other (a layer each, except single tensors), each Rows x Cols in the
// sense y = W*x with Rows outputs. A vector is 1 x n. In a mixture of experts
// gate, up and down are the stacked experts.
type Shape struct{ Parts, Rows, Cols int }

// Shape returns the real shape of a tensor of the catalogue, which for
// attention matrices is not the directory's. ok is false for an unknown name
// and for values no file can hold.
func (a *Arch) Shape(name string) (s Shape, ok bool) {
	for _, items := range [][]item{textItems(a, true, a.MoE()), visionItems(a)} {
		for i := range items {
			if it := &items[i]; it.name == name {
				if _, err := it.size(); err != nil {
					return Shape{}, false
				}
				return Shape{int(it.parts), int(it.mrows), int(it.mcols)}, true
			}
		}
	}
	return Shape{}, false
}
