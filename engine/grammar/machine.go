// SPDX-License-Identifier: Apache-2.0

package grammar

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	maxFrames = 128     // of a stack
	maxPlaces = 512     // of a state; of more ambiguity some readings are given up
	maxVisits = 1 << 15 // of nodes, for one byte
)

// maxWork bounds the search for one mask, in places gone to and frames of their
// stacks: some tenths of a second. Only schemas with hundreds of ways on from one
// place, or repeats within repeats, come near.
const maxWork = 4 << 20

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
	bytes  int64    // of memory, about
	next   []edge   // [class]
	like   *state   // that has the mask; nil: not known yet
	mask   []uint64 // of the tokens that may come next; nil: none, or not known yet
	err    error    // the mask is too much work
	known  bool     // mask and err are
	turns  bool     // all plain bytes lead back to it, as within a string
	walked uint32   // the search that found turns out
	seen   uint32   // the last search that came here
}

// edge is where a class of bytes leads to from a state.
type edge struct {
	to   *state // nil: not known yet
	cost int32  // to find it
	seen uint32 // the last search that went along
}

// size is about what a state takes, its name of so many bytes included. Of each stack
// the frames on top are counted; those below are of the states before as well.
func (s *state) size(name int) int64 {
	const (
		frameBytes = 40
		placeBytes = 16
		edgeBytes  = 16
		stateBytes = 200 // and what it takes to be found
		onTop      = 8
	)
	frames := int32(0)
	for _, p := range s.places {
		if p.stack != nil {
			frames += min(p.stack.depth, onTop)
		}
	}
	return stateBytes + int64(name+placeBytes*len(s.places)+edgeBytes*len(s.next)) + frameBytes*int64(frames)
}

// dead is where no bytes lead on.
var dead = &state{known: true}

// Machine is a grammar for a vocabulary, with the states that were met so far.
// It is safe for concurrent use.
type Machine struct {
	p     *program
	vocab *Vocabulary
	room  atomic.Int64 // bytes that states and masks may take between two searches
	most  int64        // that one search may add

	mu     sync.Mutex
	states map[string]*state
	start  *state
	walk   []*state // [longest token + 1]
	key    []byte
	bytes  int64 // of states and masks
	visits int   // nodes gone through by this step

	// Of the search for a mask under way. What it costs is counted the same whatever
	// was known before, so that a schema is refused always or never.
	search uint32 // its number; 0: none
	last   uint32
	work   int
	grown  int64 // bytes of the states that it came to
}

// NewMachine joins a grammar and a vocabulary. States and masks that were met are kept
// in room bytes; the search for one mask may take most bytes beside.
func NewMachine(g *Grammar, v *Vocabulary, room, most int64) *Machine {
	m := &Machine{p: g.p, vocab: v, walk: make([]*state, v.longest+1), most: most, states: make(map[string]*state)}
	m.room.Store(room)
	var s state
	m.visit(&s, g.p.start, nil)
	m.start = m.intern(s)
	return m
}

// SetRoom changes how many bytes states and masks may take.
func (m *Machine) SetRoom(bytes int64) { m.room.Store(bytes) }

// Bytes is what states and masks take, about.
func (m *Machine) Bytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes
}

// forget drops what was met. Who stands in a state keeps that, and nothing behind it.
func (m *Machine) forget() {
	for _, s := range m.states {
		clear(s.next)
		s.like, s.mask, s.err, s.known = nil, nil, nil, false
	}
	m.states = make(map[string]*state)
	m.bytes = 0
	m.start = m.intern(*m.start)
}

// tidy makes room for a search, or for the states of a token.
func (m *Machine) tidy() {
	if m.bytes > m.room.Load() {
		m.forget()
	}
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
	made := &state{places: s.places, ends: s.ends, next: make([]edge, m.p.classes)}
	made.bytes = made.size(len(m.key))
	m.bytes += made.bytes
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
	if s == dead {
		return dead
	}
	e := &s.next[m.p.class[c]]
	if e.to == nil {
		var to state
		m.visits = 0
		for _, p := range s.places {
			if n := &m.p.nodes[p.node]; m.p.sets[n.set].has(c) {
				m.visit(&to, n.next, p.stack)
			}
		}
		cost := len(s.places) + m.visits
		for _, p := range to.places {
			if cost++; p.stack != nil {
				cost += int(p.stack.depth)
			}
		}
		e.cost, e.to = int32(cost), m.intern(to)
	}
	if m.search != 0 && e.seen != m.search {
		e.seen = m.search
		m.work += int(e.cost)
		if to := e.to; to != dead && to.seen != m.search {
			to.seen = m.search
			m.grown += to.bytes
		}
	}
	return e.to
}

// find makes sure that the mask of a state is known. States whose counts differ only by
// more than a token can use up have one in common.
func (m *Machine) find(s *state) {
	if s.known {
		return
	}
	if s.like == nil {
		s.like = m.shortened(s)
	}
	like := s.like
	if !like.known {
		like.mask, like.err = m.fill(like)
		like.known = true
		m.bytes += int64(8 * len(like.mask))
	}
	s.mask, s.err, s.known = like.mask, like.err, true
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
	if s.walked == m.search {
		return s.turns
	}
	s.walked, s.turns = m.search, true
	for c := range byte(0x80) {
		if isPlain(c) && m.step(s, c) != s {
			s.turns = false
			break
		}
	}
	return s.turns
}

// fill walks the vocabulary and the automaton together. Within a string most of the
// vocabulary goes on with it: what is below a node whose bytes all do is taken at
// once. The mask is nil when no token may come next.
func (m *Machine) fill(s *state) ([]uint64, error) {
	m.last++
	m.search, m.work, m.grown = m.last, 0, 0
	defer func() { m.search = 0 }()
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
		if m.work > maxWork || m.grown > m.most {
			return nil, m.tooMuch()
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
		return nil, nil
	}
	return mask, nil
}

// tooMuch says why a search was given up.
func (m *Machine) tooMuch() error {
	what := fmt.Sprintf("more than %d steps", maxWork)
	if m.grown > m.most {
		what = fmt.Sprintf("more than %d bytes", m.most)
	}
	return &Error{Problem: "too ambiguous: what may come next takes " + what + " to find; give fewer alternatives, or fewer repeats within repeats"}
}
