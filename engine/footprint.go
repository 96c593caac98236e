// SPDX-License-Identifier: Apache-2.0

package engine

import "windhover/vqf"

// matrix is one of a layer's matrices in the file: its name without the family
// and its shape.
type matrix struct {
	name       string
	rows, cols int
}

// layerMatrices are those that every token takes of a layer, in the order of
// layerWeights.all: of a mixture of experts the attention's.
func (c *Config) layerMatrices() []matrix {
	list := []matrix{{"q", c.QO(), c.Dim}, {"k", c.KO(), c.Dim}, {"v", c.KO(), c.Dim}, {"o", c.Dim, c.QO()}}
	if c.NExperts > 0 {
		return list
	}
	return append(list, feedForward(c.FFN, c.Dim)...)
}

// expertStacks are the matrices of all experts of a layer as the file has them, one
// below the other in gate and up and side by side in down; none of a dense model.
func (c *Config) expertStacks() []matrix {
	if c.NExperts == 0 {
		return nil
	}
	return feedForward(c.NExperts*c.MoEFFN, c.Dim)
}

func feedForward(ffn, dim int) []matrix {
	return []matrix{{"gate", ffn, dim}, {"up", ffn, dim}, {"down", dim, ffn}}
}

// normNames are the vectors, which stay in memory in every residency: a layer's
// are some kilobytes. So does a router, of a megabyte perhaps, that every token reads.
var normNames = [...]string{"final_norm", "attn_norm", "ffn_norm", "q_norm", "k_norm", "moe_router"}

// slotAlign is where a matrix begins in memory of our own, as in a file.
const slotAlign = vqf.Align

// footprint is what the weights of a family weigh, in bytes, by the directory.
type footprint struct {
	layers int
	layer  int64 // the matrices of one layer, each from a multiple of slotAlign on
	slot   int64 // memory to read those into, see slotShape
	head   int64 // lm
	norms  int64 // and routers
	embed  int64
	expert int64 // memory of one expert, see expertLayout; 0 of a dense model
	down   int64 // of all experts
	bounce int64 // memory that a worker reads experts with
	touch  int64 // matrices and routers read for a token: of a mixture the experts that compute
	all    int64 // of the tensors as they are in the file
}

// footprintOf adds up the directory. Sizes are within the file, whose length is
// an int64.
func footprintOf(f *vqf.File, c *Config, family string) footprint {
	size := func(name string) int64 {
		t, _ := f.Tensor(name)
		return int64(t.Bytes)
	}
	w := footprint{layers: c.Layers, head: size(family + "_lm"), embed: size("token_embed")}
	for _, name := range normNames {
		w.norms += size(name)
	}
	page := slotPage(f.Flags()&vqf.FlagEnc != 0)
	w.all = w.head + w.embed + w.norms
	w.touch = w.head + size("moe_router")
	for _, m := range c.layerMatrices() {
		n := size(family + "_" + m.name)
		w.all += n
		w.touch += n
		w.layer += roundUp(n/int64(c.Layers), slotAlign)
		w.slot += slotRoom(n/int64(c.Layers), page)
	}
	for _, m := range c.expertStacks() {
		n := size(family + "_" + m.name)
		w.all += n
		w.touch += n / int64(c.NExperts) * int64(c.TopK)
		if m.name == "down" {
			w.down = n
		}
	}
	// A layout that nobody can compute with is refused when it is bound.
	if layout, err := layoutOf(f, family); err == nil && c.NExperts > 0 {
		x := expertLayoutOf(f, c, family, layout)
		w.expert, w.bounce = x.bytes, x.bounce
	}
	return w
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }
