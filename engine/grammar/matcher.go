// SPDX-License-Identifier: Apache-2.0

package grammar

// Matcher follows one answer. It serves one goroutine; many may share a Machine.
type Matcher struct {
	m      *Machine
	at     *state
	looked bool // mask and err are those of at
	mask   []uint64
	err    error
}

// Matcher begins an answer.
func (m *Machine) Matcher() *Matcher {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Matcher{m: m, at: m.start}
}

// Look finds out which tokens may come next, for Mask. It takes up to some tenths of a
// second where that is not known of an answer before. The error, an *[Error], says that
// it would take longer: the answer cannot go on.
func (x *Matcher) Look() error {
	if !x.looked {
		x.m.mu.Lock()
		defer x.m.mu.Unlock()
		x.m.tidy()
		x.m.find(x.at)
		x.take()
	}
	return x.err
}

// take remembers the mask of the state, which is known. Machine.mu is held.
func (x *Matcher) take() { x.looked, x.mask, x.err = true, x.at.mask, x.at.err }

// Mask has a bit for each token that may come next, by id, 64 a word; nil when none
// may. It must not be changed. Where Look was not called before, it is.
func (x *Matcher) Mask() []uint64 {
	if x.Look() != nil {
		return nil
	}
	return x.mask
}

// Accept takes the next token; it reports false when it may not come next, after
// which nothing may.
func (x *Matcher) Accept(id int32) bool {
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	x.m.tidy()
	b := x.m.vocab.bytes(id)
	if b == nil {
		x.at = dead
	}
	for _, c := range b {
		x.at = x.m.step(x.at, c)
	}
	x.looked = false
	return x.at != dead
}

// Try is Accept and Look if that takes no time: all of it is known of answers before,
// and nobody else searches. Else it reports false and changes nothing.
func (x *Matcher) Try(id int32) bool {
	if !x.m.mu.TryLock() {
		return false
	}
	defer x.m.mu.Unlock()
	at := x.at
	b := x.m.vocab.bytes(id)
	if b == nil {
		at = dead
	}
	for _, c := range b {
		if at == dead {
			break
		}
		if at = at.next[x.m.p.class[c]].to; at == nil {
			return false
		}
	}
	if !at.known {
		return false
	}
	x.at = at
	x.take()
	return true
}

// Complete tells whether what was taken is a whole value, so that the answer may end.
func (x *Matcher) Complete() bool { return x.at.ends }

// Ended tells whether nothing can follow.
func (x *Matcher) Ended() bool { return len(x.at.places) == 0 }
