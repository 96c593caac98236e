// SPDX-License-Identifier: Apache-2.0

package grammar

import (
	"encoding/binary"
	"slices"
	"sync"
)

const (
	maxFrames = 128  // of a stack
	maxStates = 4096 // that are kept; then all are made anew
	maxPlaces = 512  // of a state; of more ambiguity some readings are given up
	maxVisits = 1 << 15
	maxMasks  = 128 // likewise; of 19 KB each where a vocabulary has 151 936 tokens
)

// frame is what a subroutine returns to: next, or a loop with what is left of it.
type frame struct {
	at     int32 // the node behind the call, or the loop
	loop   bool
	lo, hi int32 // of a loop: times that it has to go on, and times that it may (< 0: any)
	depth  int32
	up     *frame
}

// place is a configuration: a node that takes a byte, and the stack.
type place struct {
	node  int32
	stack *frame
}

// state is a set of configurations. Machine.mu guards what changes.
type state struct {
	places []place
	ends   bool     // the value may be complete
	next   []*state // [class] nil: not known yet
	mask   []uint64 // of the tokens that may come next; nil: not known yet
	none   bool     // no token may
	turns  turning
}

// turning says whether all plain bytes lead back to a state, as within a string.
type turning uint8

const (
	turnsUnknown turning = iota
	turnsBack
	turnsAway
)

// dead is where no bytes lead on.
var dead = &state{}

// Machine is a grammar for a vocabulary, with the states that were met so far.
// It is safe for concurrent use.
type Machine struct {
	p     *program
	vocab *Vocabulary

	mu     sync.Mutex
	states map[string]*state
	masks  map[*state]bool // that have theirs
	start  *state
	walk   []*state // [longest token + 1]
	key    []byte
	visits int // nodes gone through by this step
}

// NewMachine joins a grammar and a vocabulary.
func NewMachine(g *Grammar, v *Vocabulary) *Machine {
	m := &Machine{p: g.p, vocab: v, walk: make([]*state, v.longest+1)}
	m.forget()
	var s state
	m.visits = 0
	m.visit(&s, g.p.start, nil)
	m.start = m.intern(s)
	return m
}

// forget drops what was met; those who stand in a state keep it.
func (m *Machine) forget() {
	m.states, m.masks = make(map[string]*state), make(map[*state]bool)
}

// visit adds to s the configurations that node leads to without a byte. A way on
// which the stack would not be emptied in time is none.
func (m *Machine) visit(s *state, at int32, stack *frame) {
	n := &m.p.nodes[at]
	depth := int32(0)
	if stack != nil {
		depth = stack.depth
	}
	if depth+m.p.need[at] > maxFrames || m.visits == maxVisits {
		return
	}
	m.visits++
	switch n.kind {
	case takes:
		s.places = append(s.places, place{at, stack})
	case splits:
		for _, a := range n.alts {
			m.visit(s, a, stack)
		}
	case calls:
		m.visit(s, m.p.rules[n.body], &frame{at: n.next, depth: depth + 1, up: stack})
	case loops:
		m.enter(s, at, n.min, n.max, stack)
	case returns:
		switch {
		case stack == nil:
			s.ends = true
		case stack.loop:
			m.enter(s, stack.at, stack.lo, stack.hi, stack.up)
		default:
			m.visit(s, stack.at, stack.up)
		}
	}
}

// enter goes into a loop once more, or past it.
func (m *Machine) enter(s *state, at, lo, hi int32, stack *frame) {
	n := &m.p.nodes[at]
	if lo == 0 {
		m.visit(s, n.next, stack)
	}
	if hi == 0 {
		return
	}
	depth := int32(1)
	if stack != nil {
		depth = stack.depth + 1
	}
	m.visit(s, n.body, &frame{at: at, loop: true, lo: max(lo-1, 0), hi: max(hi-1, -1), depth: depth, up: stack})
}

// intern returns the state that is kept for s.
func (m *Machine) intern(s state) *state {
	if len(s.places) == 0 && !s.ends {
		return dead
	}
	m.key = m.name(m.key[:0], &s)
	if known := m.states[string(m.key)]; known != nil {
		return known
	}
	if len(m.states) == maxStates {
		m.forget()
	}
	made := &state{places: s.places, ends: s.ends, next: make([]*state, m.p.classes)}
	m.states[string(m.key)] = made
	return made
}

// name writes what tells a state apart, and drops configurations that it has twice.
func (m *Machine) name(key []byte, s *state) []byte {
	type named struct {
		at   place
		name string
	}
	list := make([]named, len(s.places))
	for i, p := range s.places {
		b := binary.AppendVarint(nil, int64(p.node))
		for f := p.stack; f != nil; f = f.up {
			b = binary.AppendVarint(b, int64(f.at)<<1|int64(b2i(f.loop)))
			if f.loop {
				b = binary.AppendVarint(binary.AppendVarint(b, int64(f.lo)), int64(f.hi))
			}
		}
		list[i] = named{p, string(binary.AppendVarint(b, -1))}
	}
	slices.SortFunc(list, func(a, b named) int {
		switch {
		case a.name < b.name:
			return -1
		case a.name > b.name:
			return 1
		}
		return 0
	})
	list = slices.CompactFunc(list, func(a, b named) bool { return a.name == b.name })
	list = list[:min(len(list), maxPlaces)]
	s.places = s.places[:0]
	key = append(key, b2i(s.ends))
	for _, n := range list {
		s.places = append(s.places, n.at)
		key = append(key, n.name...)
	}
	return key
}

func b2i(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// step is where a byte leads to.
func (m *Machine) step(s *state, c byte) *state {
	class := m.p.class[c]
	if s == dead {
		return dead
	}
	if next := s.next[class]; next != nil {
		return next
	}
	var to state
	m.visits = 0
	for _, p := range s.places {
		if n := &m.p.nodes[p.node]; m.p.sets[n.set].has(c) {
			m.visit(&to, n.next, p.stack)
		}
	}
	next := m.intern(to)
	s.next[class] = next
	return next
}

// maskOf is the mask of a state, nil when no token may come next. States whose
// counts differ only by more than a token can use up have one in common.
func (m *Machine) maskOf(s *state) []uint64 {
	if s.mask != nil || s.none {
		return s.mask
	}
	like := s
	if s != dead {
		like = m.shortened(s)
	}
	if like.mask == nil && !like.none {
		if len(m.masks) == maxMasks {
			for old := range m.masks {
				old.mask = nil
			}
			clear(m.masks)
		}
		like.mask = m.fill(like)
		like.none = like.mask == nil
		m.masks[like] = true
	}
	return like.mask
}

// shortened is the state with no count above what a token can use up: what may go on
// for longer is without end.
func (m *Machine) shortened(s *state) *state {
	most := int32(m.vocab.longest + 1)
	over := false
	for _, p := range s.places {
		for f := p.stack; f != nil; f = f.up {
			over = over || f.loop && (f.lo > most || f.hi > most)
		}
	}
	if !over {
		return s
	}
	short := state{places: make([]place, len(s.places)), ends: s.ends}
	for i, p := range s.places {
		short.places[i] = place{p.node, p.stack.shortened(most)}
	}
	return m.intern(short)
}

func (f *frame) shortened(most int32) *frame {
	if f == nil {
		return nil
	}
	short := *f
	short.lo, short.up = min(f.lo, most), f.up.shortened(most)
	if f.hi > most {
		short.hi = unlimited
	}
	return &short
}

// turnsBack tells whether all plain bytes lead from a state to itself.
func (m *Machine) turnsBack(s *state) bool {
	if s.turns == turnsUnknown {
		s.turns = turnsBack
		for c := range byte(0x80) {
			if isPlain(c) && m.step(s, c) != s {
				s.turns = turnsAway
				break
			}
		}
	}
	return s.turns == turnsBack
}

// fill walks the vocabulary and the automaton together. Within a string most of the
// vocabulary goes on with it: what is below a node whose bytes all do is taken at
// once.
func (m *Machine) fill(s *state) []uint64 {
	mask := make([]uint64, (m.vocab.size+63)/64)
	found := false
	m.walk[0] = s
	trie := m.vocab.trie
	for i := 0; i < len(trie); {
		t := &trie[i]
		next := m.step(m.walk[t.depth-1], t.char)
		if next == dead {
			i = int(t.skip)
			continue
		}
		if t.plain && m.turnsBack(next) {
			for _, id := range m.vocab.below(t) {
				mask[id>>6] |= 1 << (id & 63)
				found = true
			}
			i = int(t.skip)
			continue
		}
		m.walk[t.depth] = next
		for id := t.token; id >= 0; id = m.vocab.again(id) {
			mask[id>>6] |= 1 << (id & 63)
			found = true
		}
		i++
	}
	if !found {
		return nil
	}
	return mask
}
