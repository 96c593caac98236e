// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"crypto/sha256"
	"slices"
	"sync/atomic"

	"windhover/kernels"
)

// prefixTree keeps the pages of sequences that have ended, and the whole pages of
// those that are in work, for requests that begin alike. An edge is what a page
// holds, so that a node at depth d stands for d pages of text, of which the last
// may be filled in part; such a one has no children. What a request shares with
// the tree up to a page is shared as it lies; of the page in which it departs, it
// continues the page itself where that ends and nobody else has begun to continue
// it, else a copy of what both have in common. Departing costs a copy of at most a
// page, and never a computation.
//
// Each realm has a tree of its own: who is told, or can time, how much of a prompt
// needed no computing could otherwise guess at what others have asked, token by
// token.
//
// A page that only the tree has can be evicted, the one that was used longest ago
// first, whosever it is, leaves before what they stand on.
type prefixTree struct {
	pool  *pagePool
	roots map[realm]*node // of those that have a child
	all   []*node         // without the roots, in no order
	clock int64           // of uses
	kept  atomic.Int64    // positions, for who looks on
}

// node is what a page holds; one without a parent is the root of its realm, and holds
// nothing.
type node struct {
	realm    realm
	parent   *node
	labels   []int32 // at least one
	page     *page
	children []*node // none unless the page is full
	used     int64
	index    int  // in all
	saved    bool // the file of Saved has it
}

// realm is within what prefixes and pictures are shared: the digest of a name.
type realm [sha256.Size]byte

func realmOf(name string) realm { return sha256.Sum256([]byte(name)) }

func newPrefixTree(pool *pagePool) *prefixTree {
	return &prefixTree{pool: pool, roots: map[realm]*node{}}
}

// common is how many labels a and b begin with together.
func common(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// closest is the child that has most in common with labels; nil, too, for a root that
// is not there.
func (n *node) closest(labels []int32) (child *node, same int) {
	if n == nil {
		return nil, 0
	}
	for _, c := range n.children {
		if k := common(c.labels, labels); k > same {
			child, same = c, k
		}
	}
	return child, same
}

func (t *prefixTree) touch(n *node) {
	t.clock++
	n.used = t.clock
}

// whole calls do for each page of labels that is kept whole in a realm.
func (t *prefixTree) whole(in realm, labels []int32, do func(*page)) {
	for at := t.roots[in]; ; {
		child, same := at.closest(labels)
		if same < kernels.AttnBlock {
			return
		}
		do(child.page)
		at, labels = child, labels[same:]
	}
}

// match is how many labels are kept in a realm.
func (t *prefixTree) match(in realm, labels []int32) int {
	n := 0
	for at := t.roots[in]; n < len(labels); {
		child, same := at.closest(labels[n:])
		n += same
		if same < kernels.AttnBlock {
			break
		}
		at = child
	}
	return n
}

// begin lets an empty sequence begin with as much of labels as is kept in its realm.
func (t *prefixTree) begin(q *sequence, labels []int32) {
	for at := t.roots[q.realm]; len(labels) > 0; at = q.at {
		child, same := at.closest(labels)
		if same == 0 {
			return
		}
		t.touch(child)
		pg := child.page
		switch {
		case same == kernels.AttnBlock:
			pg.refs++
			q.at, q.kept = child, q.kept+1
		case same == pg.fill && pg.writer == nil:
			pg.refs++
			pg.writer = q
		default:
			if pg = t.copied(child, same); pg == nil {
				return
			}
			pg.writer = q
		}
		q.pages = append(q.pages, pg)
		q.labels = append(q.labels, labels[:same]...)
		if same < kernels.AttnBlock {
			return
		}
		labels = labels[same:]
	}
}

// copied is a new page with the first n positions of a node's. Where there is no room
// for it, it is that page itself, which the tree loses; nil when others need it.
func (t *prefixTree) copied(n *node, positions int) *page {
	from := n.page
	from.refs++ // it is not what makes room
	for {
		if pg := t.pool.take(); pg != nil {
			t.pool.copyPage(pg, from, positions)
			t.pool.drop(from)
			pg.fill = positions
			return pg
		}
		if !t.evict() {
			break
		}
	}
	if from.refs > 2 || len(n.children) > 0 {
		t.pool.drop(from)
		return nil
	}
	t.remove(n)
	from.fill = positions
	return from
}

// keep takes the pages of a sequence in work that have become full.
func (t *prefixTree) keep(q *sequence) {
	for (q.kept+1)*kernels.AttnBlock <= len(q.labels) {
		pg := q.pages[q.kept]
		n := t.put(t.stem(q), q.labels[q.kept*kernels.AttnBlock:][:kernels.AttnBlock], pg)
		pg.leave(q)
		if n.page != pg { // others have computed the same
			n.page.refs++
			q.pages[q.kept] = n.page
			t.pool.drop(pg)
		}
		q.at, q.kept = n, q.kept+1
	}
}

// end takes what a sequence has computed. It is empty then.
func (t *prefixTree) end(q *sequence) {
	t.keep(q)
	if rest := q.labels[q.kept*kernels.AttnBlock:]; len(rest) > 0 {
		t.put(t.stem(q), rest, q.pages[q.kept])
	}
	q.cut(0)
	q.at, q.kept = nil, 0
}

// stem is the node of a sequence's last page that is kept. Where there is none it is
// the root of its realm, which is to be given a child.
func (t *prefixTree) stem(q *sequence) *node {
	if q.kept > 0 {
		return q.at
	}
	return t.root(q.realm)
}

// root makes the root of a realm that has none. It is to be given a child.
func (t *prefixTree) root(in realm) *node {
	r := t.roots[in]
	if r == nil {
		r = &node{realm: in}
		t.roots[in] = r
	}
	return r
}

// put keeps a page that holds labels behind parent, unless that is kept already.
// It returns the node that has them.
func (t *prefixTree) put(parent *node, labels []int32, pg *page) *node {
	for _, c := range parent.children {
		switch same := common(c.labels, labels); same {
		case len(labels):
			t.touch(c)
			return c
		case len(c.labels): // a part of it
			pg.refs++
			t.pool.drop(c.page)
			c.page, c.labels, c.saved = pg, append(c.labels, labels[same:]...), false
			t.kept.Add(int64(len(labels) - same))
			t.touch(c)
			return c
		}
	}
	pg.refs++
	t.kept.Add(int64(len(labels)))
	n := &node{realm: parent.realm, parent: parent, labels: slices.Clone(labels), page: pg, index: len(t.all)}
	t.all = append(t.all, n)
	parent.children = append(parent.children, n)
	t.touch(n)
	return n
}

// evict frees the page that was used longest ago of those that only the tree has.
func (t *prefixTree) evict() bool {
	var oldest *node
	for _, n := range t.all {
		if n.page.refs == 1 && len(n.children) == 0 && (oldest == nil || n.used < oldest.used) {
			oldest = n
		}
	}
	if oldest == nil {
		return false
	}
	t.remove(oldest)
	return true
}

// remove takes a node without children out of the tree.
func (t *prefixTree) remove(n *node) {
	p := n.parent
	p.children = slices.DeleteFunc(p.children, func(c *node) bool { return c == n })
	if p.parent == nil && len(p.children) == 0 {
		delete(t.roots, p.realm) // anybody can make up names
	}
	last := t.all[len(t.all)-1]
	t.all[n.index], last.index = last, n.index
	t.all = t.all[:len(t.all)-1]
	t.pool.drop(n.page)
	t.kept.Add(-int64(len(n.labels)))
}

// evictable is how many pages evict can free, one after the other: who uses a page
// uses those before it too.
func (t *prefixTree) evictable() int {
	n := 0
	for _, k := range t.all {
		if k.page.refs == 1 {
			n++
		}
	}
	return n
}
