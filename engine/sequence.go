// SPDX-License-Identifier: Apache-2.0

package engine

import "windhover/kernels"

// sequence is text that is being computed: what its positions hold, and the pages
// of their keys and values.
type sequence struct {
	pool   *pagePool
	realm  realm   // whose prefixes it begins with
	labels []int32 // of each position that is computed: its token, or less than 0 for a place of a picture
	pages  []*page // by position / AttnBlock; all that labels need, and of the pass in work
	scene  *scene  // pictures among the first positions; nil for text

	// In the prefix tree: how many pages are there, which are full, and the node of
	// the last of them, nil for none.
	kept int
	at   *node
}

// newSequence makes an empty one that grows to n positions without allocating.
func newSequence(pool *pagePool, n int) *sequence {
	return &sequence{pool: pool, labels: make([]int32, 0, n), pages: make([]*page, 0, kvPages(n))}
}

func (q *sequence) len() int { return len(q.labels) }

// lacks is how many pages it takes to have room for n positions.
func (q *sequence) lacks(n int) int { return max(kvPages(n)-len(q.pages), 0) }

// grow takes the pages of the first n positions; false when the pool has none.
func (q *sequence) grow(n int) bool {
	for q.lacks(n) > 0 {
		pg := q.pool.take()
		if pg == nil {
			return false
		}
		pg.writer = q
		q.pages = append(q.pages, pg)
	}
	return true
}

// computed says that a pass has computed what has labels, behind the sequence.
func (q *sequence) computed(labels []int32) {
	from := len(q.labels)
	q.labels = append(q.labels, labels...)
	q.scene.read(len(q.labels))
	for i := from / kernels.AttnBlock; i < kvPages(len(q.labels)); i++ {
		q.pages[i].fill = min(len(q.labels)-i*kernels.AttnBlock, kernels.AttnBlock)
	}
}

// cut forgets all behind the first n positions, and gives pages back.
func (q *sequence) cut(n int) {
	q.labels = q.labels[:min(n, len(q.labels))]
	for len(q.pages) > kvPages(len(q.labels)) {
		last := len(q.pages) - 1
		q.pages[last].leave(q)
		q.pool.drop(q.pages[last])
		q.pages = q.pages[:last]
	}
	if n := len(q.pages); n > 0 {
		if pg := q.pages[n-1]; pg.writer == q {
			pg.fill = len(q.labels) - (n-1)*kernels.AttnBlock
		}
	}
}

// leave lets others continue a page that q was continuing.
func (pg *page) leave(q *sequence) {
	if pg.writer == q {
		pg.writer = nil
	}
}
