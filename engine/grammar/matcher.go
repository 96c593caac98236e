// SPDX-License-Identifier: Apache-2.0

package grammar

// Matcher follows one answer. It serves one goroutine; many may share a Machine.
type Matcher struct {
	m  *Machine
	at *state
}

// Matcher begins an answer.
func (m *Machine) Matcher() *Matcher { return &Matcher{m: m, at: m.start} }

// Mask has a bit for each token that may come next, by id, 64 a word; nil when none
// may. It must not be changed, and counts until the next call.
func (x *Matcher) Mask() []uint64 {
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	return x.m.maskOf(x.at)
}

// Accept takes the next token; it reports false when it may not come next, after
// which nothing may.
func (x *Matcher) Accept(id int32) bool {
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	b := x.m.vocab.bytes(id)
	if b == nil {
		x.at = dead
	}
	for _, c := range b {
		x.at = x.m.step(x.at, c)
	}
	return x.at != dead
}

// Complete tells whether what was taken is a whole value, so that the answer may end.
func (x *Matcher) Complete() bool { return x.at.ends }

// Ended tells whether nothing can follow.
func (x *Matcher) Ended() bool { return len(x.at.places) == 0 }
