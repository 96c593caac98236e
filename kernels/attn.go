// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"fmt"
	"math"
)

// AttnBlock is the number of positions that attention computes together, from a
// multiple of it on. A row is one query of one head. For a row q and the n
// positions of a block that it sees, a block gives, with key and value as [KV]
// reads them and fma rounding once:
//
//	x_j = q_j * scale
//	s_i = fma(x_j, key_ij, s_i) from +0, j ascending
//	m   = the largest s_i
//	p_i = Exp(s_i - m)
//	l   = sum of p_i, in the 16 lanes of [Dot]
//	o_j = fma(p_i, value_ij, o_j) from +0, i ascending
//
// The first block's m, l and o are the row's. Each later one, blocks ascending,
// is merged into them:
//
//	m'   = the block's m if larger than m, else m
//	c, d = Exp(m - m'), Exp(m_block - m')
//	l    = l*c + l_block*d
//	o_j  = o_j*c + o_block,j*d
//
// The result is o_j * (1/l). No block needs another before the merging, and no
// row needs another at all, so that who computes which, and what together, does
// not change a bit.
const AttnBlock = 256

// AttnPart is what blocks give for some rows.
type AttnPart struct {
	O    []float32 // [rows][w], w the width of a head rounded up to 16
	M, L []float32 // [rows]
}

// NewAttnPart makes a part for rows rows of heads of hd values.
func NewAttnPart(rows, hd int) AttnPart {
	return AttnPart{O: make([]float32, rows*roundLanes(hd)), M: make([]float32, rows), L: make([]float32, rows)}
}

// AttnPartBytes is what NewAttnPart allocates, about.
func AttnPartBytes(rows, hd int) int64 { return 4 * int64(rows) * int64(roundLanes(hd)+2) }

// Rows is the part of rows [from,to).
func (p AttnPart) Rows(from, to int) AttnPart {
	w := len(p.O) / len(p.M)
	return AttnPart{O: p.O[from*w : to*w], M: p.M[from:to], L: p.L[from:to]}
}

// Merge merges a later block into p, row by row.
func (p AttnPart) Merge(block AttnPart) {
	if len(p.M) != len(block.M) || len(p.O) != len(block.O) || len(p.L) < len(p.M) || len(block.L) < len(p.M) {
		panic(fmt.Sprintf("kernels: attention: %d rows of %d values merged into %d of %d", len(block.M), len(block.O), len(p.M), len(p.O)))
	}
	if len(p.M) == 0 {
		return
	}
	w := len(p.O) / len(p.M)
	for r, m := range p.M {
		c, d := float32(1), float32(1) // one of them is Exp(0)
		if block.M[r] > m {
			c = Exp(m - block.M[r])
			p.M[r] = block.M[r]
		} else {
			d = Exp(block.M[r] - m)
		}
		p.L[r] = float32(p.L[r]*c) + float32(block.L[r]*d)
		attnMerge(p.O[r*w:][:w], block.O[r*w:][:w], c, d)
	}
}

// Result writes the attention of a row to out, the width of a head.
func (p AttnPart) Result(row int, out []float32) {
	w := len(p.O) / len(p.M)
	attnScale(out, p.O[row*w:][:w:w][:len(out)], 1/p.L[row])
}

// AttnTile is what a worker needs to compute blocks for rows that look at the
// same keys: the query heads of a kv head, of one or several tokens.
type AttnTile struct {
	hd, width int
	q         []float32 // [rows][hd], scaled
	s         []float32 // [rows][AttnBlock] scores, then weights
	panel     []float32 // keys or values of KVGroup positions
	scales    []float32 // of such, in int8
}

// NewAttnTile makes a tile of at most rows rows of heads of hd values.
func NewAttnTile(rows, hd int) *AttnTile {
	if rows < 1 || hd < 1 {
		panic(fmt.Sprintf("kernels: NewAttnTile: %d rows of %d values", rows, hd))
	}
	w := roundLanes(hd)
	return &AttnTile{
		hd: hd, width: w,
		q: make([]float32, rows*hd), s: make([]float32, rows*AttnBlock),
		panel: make([]float32, KVGroup*w), scales: make([]float32, KVGroup*kvBlocks(w)),
	}
}

// AttnTileBytes is what NewAttnTile allocates, about.
func AttnTileBytes(rows, hd int) int64 {
	w := roundLanes(hd)
	return 4 * (int64(rows)*int64(hd+AttnBlock) + KVGroup*int64(w+kvBlocks(w)))
}

// SetQuery makes q, times scale, the query of a row.
func (t *AttnTile) SetQuery(row int, q []float32, scale float32) {
	if len(q) != t.hd {
		panic(fmt.Sprintf("kernels: attention: query of %d values, want %d", len(q), t.hd))
	}
	attnScale(t.q[row*t.hd:][:t.hd], q, scale)
}

// Block computes a block for as many rows as dst has. Row r sees the first
// seen + r/step positions, AttnBlock at most; rows for which that is not
// positive are left alone. So step is the number of heads, where the rows are
// tokens in sequence with their heads together. keys and values are the groups
// of the block, as many as any row sees.
func (t *AttnTile) Block(dst AttnPart, kv KV, keys, values []byte, seen, step int) {
	rows := len(dst.M)
	if rows*AttnBlock > len(t.s) || len(dst.O) != rows*t.width || len(dst.L) != rows || step < 1 {
		panic(fmt.Sprintf("kernels: attention: %d rows by %d of %d values and %d sums in a tile of %d rows of %d",
			rows, step, len(dst.O), len(dst.L), len(t.s)/AttnBlock, t.width))
	}
	b := attnBlock{t, dst, kv, keys, values, seen, step}
	first := b.from(0)
	if first >= rows {
		return
	}
	groups := (b.sees(rows-1) + KVGroup - 1) / KVGroup
	if size := groups * kv.GroupBytes(t.hd); kv > KVInt8 || len(keys) < size || len(values) < size {
		panic(fmt.Sprintf("kernels: attention: %d and %d bytes for %d groups of %v", len(keys), len(values), groups, kv))
	}
	for g := range groups {
		b.scores(g)
	}
	for r := first; r < rows; r++ {
		n := b.sees(r)
		x := t.s[r*AttnBlock:][:roundLanes(n)]
		for i := n; i < len(x); i++ {
			x[i] = float32(math.Inf(-1))
		}
		dst.M[r], dst.L[r] = attnWeights(x)
	}
	for g := range groups {
		b.sums(g)
	}
}

// attnBlock is a call of Block.
type attnBlock struct {
	*AttnTile
	dst          AttnPart
	kv           KV
	keys, values []byte
	seen, step   int
}

// sees is the number of positions that a row sees.
func (b *attnBlock) sees(row int) int { return min(b.seen+row/b.step, AttnBlock) }

// from is the first row that sees position i; rows after it do so too.
func (b *attnBlock) from(i int) int { return max(i+1-b.seen, 0) * b.step }

// group is group g of keys or values.
func (b *attnBlock) group(of []byte, g int) []byte {
	size := b.kv.GroupBytes(b.hd)
	return of[g*size:][:size]
}

// scores computes s for a group of positions. There is room for whole groups,
// and they are quicker than what is left of one.
func (b *attnBlock) scores(g int) {
	at := g * KVGroup
	r, keys := b.from(at), b.group(b.keys, g)
	p := floatProduct{
		c: b.s[r*AttnBlock+at:], ldc: AttnBlock, a: b.q[r*b.hd:], lda: b.hd,
		step: KVGroup, next: lanes, rows: len(b.dst.M) - r, groups: KVGroup / lanes, k: b.hd,
	}
	if b.sees(len(b.dst.M)-1)-at <= lanes {
		p.groups = 1
	}
	switch {
	case !b.direct(p.groups):
		b.kv.keys(b.panel, keys, b.hd)
		p.b = b.panel
	case b.kv == KVF16:
		p.half = halvesOf(keys)
	default:
		attnKeysInt8(p, b.readScales(keys), keys[2*len(b.scales):])
		return
	}
	attnProduct(p)
}

// sums adds a group of positions to o, or begins it. Rows that see no end of
// the group go together, the others by token.
func (b *attnBlock) sums(g int) {
	at, end, rows := g*KVGroup, (g+1)*KVGroup, len(b.dst.M)
	p := floatProduct{ldc: b.width, lda: AttnBlock, step: b.width, next: lanes, groups: b.width / lanes, add: g > 0}
	values := b.group(b.values, g)
	var scales []float32
	switch direct := b.direct(p.groups); {
	case !direct:
		b.kv.values(b.panel, values, b.hd)
		p.b = b.panel
	case b.kv == KVF16:
		p.half = halvesOf(values)
	default:
		scales = b.readScales(values)
	}
	for r := b.from(at); r < rows; {
		to := rows
		if b.sees(r) < end {
			to = min((r/b.step+1)*b.step, rows)
		}
		p.c, p.a = b.dst.O[r*b.width:], b.s[r*AttnBlock+at:]
		p.rows, p.k = to-r, min(b.sees(r), end)-at
		if scales != nil {
			attnValuesInt8(p, scales, values[2*len(scales):])
		} else {
			attnProduct(p)
		}
		r = to
	}
}

// direct tells whether the rows are so few that the cache is converted while it
// is used: the same values, so the same bits.
func (b *attnBlock) direct(groups int) bool {
	if b.kv == KVInt8 {
		return attnReadsInt8(len(b.dst.M), groups)
	}
	return len(b.dst.M) <= attnDirect
}

// readScales reads the scales of an int8 group.
func (b *attnBlock) readScales(group []byte) []float32 {
	kvHalves(b.scales, halvesOf(group)[:len(b.scales)])
	return b.scales
}

// floatProduct is c = a*b, or c += a*b with add: for each row and column
// c = fma(a_k, b_k, c), k ascending, from c or +0. Columns come in groups of 16.
type floatProduct struct {
	c, a   []float32
	b      []float32
	half   []uint16 // if not nil, b in binary16
	ldc    int      // elements from a row of c to the next
	lda    int      // of a
	step   int      // from k to k+1 in b
	next   int      // from a group of columns to the next in b
	rows   int      // this, groups and k at least 1
	groups int
	k      int
	add    bool
}
