// SPDX-License-Identifier: Apache-2.0

package grammar

import "math"

// maxNodes bounds a program: 40 bytes each.
const maxNodes = 1 << 16

type kind uint8

const (
	takes   kind = iota // a byte of set, then on at next
	splits              // on at each of alts
	calls               // through the rule body, then on at next
	loops               // min to max times through body, then on at next
	returns             // to whoever called
)

// node is a step of a program.
type node struct {
	kind     kind
	set      int32   // takes: index in sets
	next     int32   // but of splits and returns
	body     int32   // calls: number of the rule; loops: node, which takes a byte at least before it returns
	min, max int32   // loops; max < 0: without end
	alts     []int32 // splits
}

// byteSet has a bit for each byte.
type byteSet [4]uint64

func (s *byteSet) add(lo, hi byte) {
	for c := int(lo); c <= int(hi); c++ {
		s[c>>6] |= 1 << (c & 63)
	}
}

func (s *byteSet) has(c byte) bool { return s[c>>6]>>(c&63)&1 != 0 }

// program is a compiled grammar. It does not change.
type program struct {
	nodes   []node
	sets    []byteSet
	rules   []int32    // entry of each
	need    []int32    // [nodes] frames on top of the stack until it returns, at least
	class   [256]uint8 // bytes that no set tells apart have one class
	classes int
	start   int32
}

// builder makes programs, from the back to the front.
type builder struct {
	program
	index map[byteSet]int32
	full  bool // more nodes than a program may have

	ret, char, digit int32 // bodies that many loops share
	space            int32 // rules
	any              int32
}

func newBuilder() *builder {
	b := &builder{index: make(map[byteSet]int32)}
	b.ret = b.add(node{kind: returns})
	b.digit = b.bytes('0', '9', b.ret)
	b.char = b.character(b.ret)
	b.space = b.rule()
	b.rules[b.space] = b.split(b.ret, b.bytes(' ', ' ', b.ret), b.bytes('\n', '\n', b.loop(b.bytes(' ', ' ', b.ret), 0, maxIndent, b.ret)))
	b.any = b.rule()
	b.rules[b.any] = b.anyValue(b.ret)
	return b
}

func (b *builder) add(n node) int32 {
	if len(b.nodes) == maxNodes {
		b.full = true
		return 0
	}
	b.nodes = append(b.nodes, n)
	return int32(len(b.nodes) - 1)
}

// rule makes a rule whose entry is set later.
func (b *builder) rule() int32 {
	b.rules = append(b.rules, -1)
	return int32(len(b.rules) - 1)
}

func (b *builder) takes(s byteSet, next int32) int32 {
	at, ok := b.index[s]
	if !ok {
		at = int32(len(b.sets))
		b.sets = append(b.sets, s)
		b.index[s] = at
	}
	return b.add(node{kind: takes, set: at, next: next})
}

func (b *builder) bytes(lo, hi byte, next int32) int32 {
	var s byteSet
	s.add(lo, hi)
	return b.takes(s, next)
}

func (b *builder) text(s string, next int32) int32 {
	for i := len(s) - 1; i >= 0; i-- {
		next = b.bytes(s[i], s[i], next)
	}
	return next
}

func (b *builder) split(alts ...int32) int32 {
	if len(alts) == 1 {
		return alts[0]
	}
	return b.add(node{kind: splits, alts: alts})
}

func (b *builder) call(rule, next int32) int32 {
	return b.add(node{kind: calls, body: rule, next: next})
}

func (b *builder) loop(body, least, most, next int32) int32 {
	if least == 0 && most == 0 {
		return next
	}
	return b.add(node{kind: loops, body: body, min: least, max: most, next: next})
}

// finish completes a program that begins at start; it reports false when nothing
// that ends can be said by it.
func (b *builder) finish(start int32) (*program, bool) {
	p := &b.program
	p.start = start
	p.measure()
	p.classify()
	return p, p.need[start] <= maxFrames
}

// never is the need of what never returns.
const never = math.MaxInt32 / 2

// measure finds how many frames each node needs: the least solution, from above.
func (p *program) measure() {
	p.need = make([]int32, len(p.nodes))
	for i := range p.need {
		p.need[i] = never
	}
	for changed := true; changed; {
		changed = false
		for i := range p.nodes {
			if n := min(p.needs(&p.nodes[i]), never); n < p.need[i] {
				p.need[i], changed = n, true
			}
		}
	}
}

func (p *program) needs(n *node) int32 {
	switch n.kind {
	case takes:
		return p.need[n.next]
	case splits:
		least := int32(never)
		for _, a := range n.alts {
			least = min(least, p.need[a])
		}
		return least
	case calls:
		return max(1+p.need[p.rules[n.body]], p.need[n.next])
	case loops:
		if n.min == 0 {
			return p.need[n.next]
		}
		return max(1+p.need[n.body], p.need[n.next])
	}
	return 0
}

// classify finds the classes of bytes, by splitting them at each set.
func (p *program) classify() {
	p.classes = 1
	for _, s := range p.sets {
		var other [256]int // [class] that of its bytes in s; 0: none yet
		inside, outside := [256]bool{}, [256]bool{}
		for c := range 256 {
			if s.has(byte(c)) {
				inside[p.class[c]] = true
			} else {
				outside[p.class[c]] = true
			}
		}
		for c := range 256 {
			k := p.class[c]
			if !inside[k] || !outside[k] || !s.has(byte(c)) {
				continue
			}
			if other[k] == 0 {
				other[k] = p.classes
				p.classes++
			}
			p.class[c] = uint8(other[k])
		}
	}
}

// circular finds a rule that leads back to itself before it takes a byte, starting
// at the rules of from on.
func (p *program) circular(from int) (rule int, found bool) {
	const (
		open = 1
		done = 2
	)
	mark := make([]uint8, len(p.rules))
	var visit func(rule int32) bool
	var walk func(at int32) bool
	walk = func(at int32) bool {
		switch n := &p.nodes[at]; n.kind {
		case splits:
			for _, a := range n.alts {
				if walk(a) {
					return true
				}
			}
		case calls:
			return visit(n.body)
		}
		return false
	}
	visit = func(r int32) bool {
		switch mark[r] {
		case open:
			return true
		case done:
			return false
		}
		mark[r] = open
		if walk(p.rules[r]) {
			return true
		}
		mark[r] = done
		return false
	}
	for r := from; r < len(p.rules); r++ {
		if visit(int32(r)) {
			return r, true
		}
	}
	return 0, false
}

// widest is the largest number of ways on from a node without a byte, those that a
// call returns by included.
func (p *program) widest() int {
	ways := make([]int, len(p.nodes)) // 0: not known, or being counted
	var count func(at int32) int
	count = func(at int32) int {
		if ways[at] > 0 {
			return ways[at]
		}
		n := 1
		switch d := &p.nodes[at]; d.kind {
		case splits:
			n = 0
			for _, a := range d.alts {
				n = min(n+count(a), maxNodes)
			}
		case calls:
			n = count(p.rules[d.body]) + count(d.next)
		case loops:
			n = count(d.body) + count(d.next)
		}
		ways[at] = min(n, maxNodes)
		return ways[at]
	}
	most := 0
	for at := range p.nodes {
		most = max(most, count(int32(at)))
	}
	return most
}
