// SPDX-License-Identifier: Apache-2.0

package engine

import "windhover/vqf"

// matrix is one of a layer's matrices in the file: its name without the family
// and its shape.
type matrix struct {
	name       string
	rows, cols int
}

// layerMatrices are those of a layer, in the order of layerWeights.all.
func (c *Config) layerMatrices() [7]matrix {
	return [...]matrix{
		{"q", c.QO(), c.Dim}, {"k", c.KO(), c.Dim}, {"v", c.KO(), c.Dim}, {"o", c.Dim, c.QO()},
		{"gate", c.FFN, c.Dim}, {"up", c.FFN, c.Dim}, {"down", c.Dim, c.FFN},
	}
}

// normNames are the vectors, which stay in memory in every residency: a layer's
// are some kilobytes.
var normNames = [...]string{"final_norm", "attn_norm", "ffn_norm", "q_norm", "k_norm"}

// slotAlign is where a matrix begins in memory of our own, as in a file.
const slotAlign = vqf.Align

// footprint is what the weights of a family weigh, in bytes, by the directory.
type footprint struct {
	layers int
	layer  int64 // the matrices of one layer, each from a multiple of slotAlign on
	head   int64 // lm
	norms  int64
	embed  int64
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
	w.all = w.head + w.embed + w.norms
	for _, m := range c.layerMatrices() {
		n := size(family + "_" + m.name)
		w.all += n
		w.layer += roundUp(n/int64(c.Layers), slotAlign)
	}
	return w
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }
