// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"sync"

	"windhover/engine/tokenizer"
	"windhover/kernels"
	"windhover/vqf"
)

// Model is a loaded model. Its methods may be called from any goroutine, at the same
// time. Requests are computed beside each other; an evaluation waits for those that
// came before it, and those that come later wait for it.
type Model struct {
	file    *vqf.File
	cfg     Config
	w       *weights
	pool    *kernels.Pool
	kv      *pagePool
	st      *state
	scratch *scratch
	sched   *scheduler
	tok     *tokenizer.Tokenizer // nil when loaded without
	tmpl    *tokenizer.Template  // nil when there is none
	marks   markers
	forms   *forms
	meta    *Meta
	sight   *sight // nil when the model takes no pictures
	info    Info
	chunk   int

	// Of the evaluation whose turn it is, see begin.
	seq   *sequence
	spans [1]span
	one   [1]int32 // the token of a single step
	rows  []int    // that get logits

	saved    Saved
	stale    bool // what is at its path cannot be used, or not all of it
	once     sync.Once
	closeErr error
}

// Tokenizer returns the model's tokenizer, nil if it was loaded without.
func (m *Model) Tokenizer() *tokenizer.Tokenizer { return m.tok }

// Template returns the chat template, nil if the model has none.
func (m *Model) Template() *tokenizer.Template { return m.tmpl }

// Info tells what was loaded and how.
func (m *Model) Info() Info { return m.info }

// Meta returns what the file, or its directory, says about the model beside
// the weights. It must not be changed.
func (m *Model) Meta() *Meta { return m.meta }

// Close waits for the requests to end, those that wait as well, and frees everything;
// there are no new requests from its call on. Cancel them first. Closing twice is
// harmless. What [Model.SaveCache] did not save is gone.
func (m *Model) Close() error {
	m.sched.close()
	m.once.Do(func() { m.closeErr = m.free() })
	return m.closeErr
}

func (m *Model) free() error {
	if m.pool != nil {
		m.pool.Close()
	}
	var err error
	if m.kv != nil {
		err = m.kv.close()
	}
	if m.w != nil {
		if werr := m.w.res.close(); err == nil {
			err = werr
		}
	}
	if serr := m.sight.close(); err == nil {
		err = serr
	}
	if m.file != nil {
		if cerr := m.file.Close(); err == nil {
			err = cerr
		}
	}
	return err
}

// CheckAffinity reads back where the workers run and names those that are not
// on their CPU any more; nil for a model whose workers are not pinned, and
// [ErrBusy] while there are requests.
func (m *Model) CheckAffinity() error {
	s := m.sched
	s.mu.Lock()
	defer s.mu.Unlock()
	open := func(g *generation) bool { return !g.over }
	for {
		switch {
		case s.lent || len(s.loans) > 0 || slices.ContainsFunc(s.waiting, open) || slices.ContainsFunc(s.active, open):
			return ErrBusy
		case s.closing: // perhaps since the last wait, and then without a pool
			return ErrClosed
		case !s.attached:
			return m.pool.CheckAffinity() // Close waits for mu
		}
		s.calm.Wait()
	}
}

// checkTokens refuses what the model has no embedding for. pictures says that there
// are some, which are held against the tokens elsewhere.
func (m *Model) checkTokens(tokens []int32, pictures bool) error {
	if len(tokens) == 0 {
		return badRequest("no tokens")
	}
	for i, id := range tokens {
		if id < 0 || int(id) >= m.cfg.Vocab {
			return badRequest("token %d at position %d, the vocabulary has %d", id, i, m.cfg.Vocab)
		}
		if pictures || id == 0 || id != m.info.imageToken && id != m.info.videoToken {
			continue
		}
		if m.sight == nil {
			return unsupported("token %d at position %d stands for a picture, and %s has no vision tower", id, i, m.file.Path())
		}
		return fmt.Errorf("%w: token %d at position %d stands for one, and there is none", ErrPicture, id, i)
	}
	return nil
}

// feed computes up to a chunk of tokens behind the sequence.
func (m *Model) feed(tokens []int32) error {
	pos := m.seq.len()
	if len(tokens) > m.st.size.ctx-pos {
		return &ContextError{Prompt: pos + len(tokens), Context: m.st.size.ctx}
	}
	for !m.seq.grow(pos + len(tokens)) {
		m.sched.tree.evict() // there is something: a sequence alone has room
	}
	if err := m.look(m.seq.scene, pos, len(tokens)); err != nil {
		return err
	}
	m.spans[0] = span{seq: m.seq, tokens: tokens, pos: pos}
	if err := m.st.forward(m.spans[:]); err != nil {
		return fmt.Errorf("engine: position %d: %w", pos, err)
	}
	m.seq.computed(tokens)
	return nil
}

// step computes one token and its logits.
func (m *Model) step(id int32) error {
	m.one[0] = id
	if err := m.feed(m.one[:]); err != nil {
		return err
	}
	return m.head(0, 1)
}

// head computes the logits of n rows of the last feed.
func (m *Model) head(from, n int) error {
	m.rows = m.rows[:0]
	for i := range n {
		m.rows = append(m.rows, from+i)
	}
	return m.st.head(m.rows)
}
