// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync/atomic"

	"windhover/kernels"
)

// A mixture of experts has NExperts feed-forward parts in each layer, of which the
// router (router.go) chooses TopK for each token:
//
//	x = x + weight_e * (Wdown_e (SiLU(Wgate_e h) * Wup_e h)), chosen experts e ascending
//
// Only what is chosen is read. The tokens of a pass are grouped by expert, so that
// each expert's weights go through the caches once for all of them. That changes no
// bit: an expert computes for a token what it would alone, and a token's experts are
// added in the order of their numbers however they are grouped.
//
// A pair is a token and one of its experts. Pairs have rows of their own in gate,
// up and what is made of them: by expert, tokens ascending, an expert's first row a
// multiple of kernels.RowsAlign.

// mixture is what a pass needs for the experts beside the state's buffers.
type mixture struct {
	scores  []float32 // [rows][experts] of the router, then p
	ids     []int32   // [rows][topK] chosen experts, ascending
	weights []float32 // [rows][topK] what their results count

	used   []int32       // experts that some token chose, ascending
	count  []int32       // [experts] tokens of each
	first  []int32       // [experts] row of its first pair
	token  []int32       // [pairs] the row of the pass that a pair belongs to
	weight []float32     // [pairs]
	pairs  int           // rows in use, those between experts too
	in     *kernels.Acts // [pairs][dim] h in int8, of experts with several tokens; nil in the reference path

	// The experts in hand: weights[i] are those of batch[i].
	batch   []int32
	experts []expertWeights

	// down of those of one token, where all are windows to compute with; else empty.
	windows []kernels.Product

	// routed, when set by a test, sees the chosen experts [tokens][topK] of a layer.
	routed func(layer int, ids []int32)
}

// expertWeights are the matrices of one expert.
type expertWeights struct {
	gate, up kernels.Matrix // [moeFFN x dim]
	down     kernels.Matrix // [dim x moeFFN]

	// Where down is a window of all experts' that is to lie in one piece the next
	// time: the memory for that, and how many of its rows are not there yet. Who
	// computes with rows of down copies them before; nil: nothing is to be copied.
	packed *kernels.Matrix
	left   *atomic.Int32
}

// pairRows is how many rows the pairs of a pass of rows tokens may take.
func (c *Config) pairRows(rows int) int {
	pairs := rows * c.TopK
	return pairs + (kernels.RowsAlign-1)*min(c.NExperts, pairs)
}

// innerShape is the shape of what is between gate, up and down in a pass of rows
// tokens.
func (c *Config) innerShape(rows int) (n, cols int) {
	if c.NExperts == 0 {
		return rows, c.FFN
	}
	return c.pairRows(rows), c.MoEFFN
}

// newMixture allocates for passes of rows tokens; nil for a dense model.
func newMixture(c *Config, rows int, float bool) *mixture {
	if c.NExperts == 0 {
		return nil
	}
	pairs := c.pairRows(rows)
	m := &mixture{
		scores: make([]float32, rows*c.NExperts), ids: make([]int32, rows*c.TopK), weights: make([]float32, rows*c.TopK),
		used: make([]int32, 0, c.NExperts), count: make([]int32, c.NExperts), first: make([]int32, c.NExperts),
		token: make([]int32, pairs), weight: make([]float32, pairs),
	}
	if !float {
		m.in = kernels.NewActs(pairs, c.Dim)
		m.windows = make([]kernels.Product, 0, c.TopK)
	}
	return m
}

// innerBytes is about what the feed-forward part of a pass of rows tokens takes.
func innerBytes(c *Config, rows int, float bool) int64 {
	n, cols := c.innerShape(rows)
	bytes := 2 * 4 * int64(n) * int64(cols)
	if !float {
		bytes += actsBytes(n, cols)
	}
	if c.NExperts == 0 {
		return bytes
	}
	bytes += 4*int64(rows)*int64(c.NExperts+2*c.TopK) + 8*int64(n)
	if !float {
		bytes += actsBytes(n, c.Dim)
	}
	return bytes
}

// group gives the pairs of a pass of tokens rows their rows.
func (m *mixture) group(tokens int) {
	k := len(m.ids) / (len(m.scores) / len(m.count))
	clear(m.count)
	for _, e := range m.ids[:tokens*k] {
		m.count[e]++
	}
	m.used, m.pairs = m.used[:0], 0
	for e, n := range m.count {
		if n == 0 {
			continue
		}
		m.used = append(m.used, int32(e))
		m.first[e] = int32((m.pairs + kernels.RowsAlign - 1) / kernels.RowsAlign * kernels.RowsAlign)
		m.pairs = int(m.first[e] + n)
	}
	clear(m.count)
	for i, e := range m.ids[:tokens*k] {
		row := m.first[e] + m.count[e]
		m.token[row], m.weight[row] = int32(i/k), m.weights[i]
		m.count[e]++
	}
}

// tokensOf are the tokens of an expert, and the row of its first pair.
func (m *mixture) tokensOf(expert int32) (tokens []int32, first int) {
	first = int(m.first[expert])
	return m.token[first:][:m.count[expert]], first
}
