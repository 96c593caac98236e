// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"windhover/engine/grammar"
)

// What forms may take in memory; admission counts all of it, beside the vocabulary.
const (
	formPool   = 8 << 20 // bytes of all grammars, with what was found out about them
	formSearch = 4 << 20 // that the search for one mask may take beside
	formLeast  = 128 << 10
	keptForms  = 4  // grammars that are kept when nobody uses them
	tokenBytes = 48 // of the vocabulary's automaton, for each token: published ones take 33 to 41
)

// formBytes is what forms may take in memory.
func formBytes(vocab int) int64 { return vocabularyBytes(vocab) + formPool + formSearch }

func vocabularyBytes(vocab int) int64 { return 64<<10 + tokenBytes*int64(vocab) }

// forms are the grammars that requests are held to, and those of the last ones.
type forms struct {
	vocabulary func() (*grammar.Vocabulary, error) // made when it is first asked for
	openings   func() (*openings, error)           // as well
	searching  chan struct{}                       // capacity 1: one mask is searched for at a time, memory is counted for one
	searches   func()                              // called at each; tests wait in it
	most       int64                               // bytes that one may take

	mu   sync.Mutex  // held for bookkeeping only
	kept []*keptForm // last used last
}

// keptForm is a grammar with what was found out about it.
type keptForm struct {
	key     [sha256.Size]byte
	users   int   // guarded by forms.mu, as is bytes
	bytes   int64 // of the grammar
	ready   chan struct{}
	machine *grammar.Machine // set before ready is closed, as is err
	err     error
}

func newForms(m *Model) *forms {
	f := &forms{
		searching: make(chan struct{}, 1),
		searches:  func() {},
		most:      formSearch,
		vocabulary: sync.OnceValues(func() (*grammar.Vocabulary, error) {
			v := grammar.NewVocabulary(m.cfg.Vocab, m.ordinary)
			if need, most := v.Bytes(), vocabularyBytes(m.cfg.Vocab); need > most {
				return nil, &FormError{Need: need, Limit: most, what: "the automaton of the model's vocabulary"}
			}
			return v, nil
		}),
	}
	f.openings = sync.OnceValues(func() (*openings, error) {
		v, err := f.vocabulary()
		if err != nil {
			return nil, err
		}
		o := findOpenings(m.cfg.Vocab, m.tok.TokenBytes)
		if need, most := v.Bytes()+o.bytes(), vocabularyBytes(m.cfg.Vocab); need > most {
			return nil, &FormError{Need: need, Limit: most, what: "the automaton of the model's vocabulary, and its tokens that open calls,"}
		}
		return o, nil
	})
	return f
}

// take returns the grammar that is kept for a key, or makes it; release gives it back.
func (f *forms) take(kind string, key []byte, compile func() (*grammar.Grammar, error)) (*keptForm, error) {
	sum := sha256.Sum256(append([]byte(kind+"\x00"), key...))
	f.mu.Lock()
	at := slices.IndexFunc(f.kept, func(k *keptForm) bool { return k.key == sum })
	if at >= 0 {
		k := f.kept[at]
		f.kept = append(slices.Delete(f.kept, at, at+1), k)
		k.users++
		f.mu.Unlock()
		if <-k.ready; k.err != nil {
			return nil, k.err
		}
		return k, nil
	}
	k := &keptForm{key: sum, users: 1, ready: make(chan struct{})}
	f.kept = append(f.kept, k)
	f.mu.Unlock()
	defer close(k.ready)
	k.err = f.make(k, compile)
	if k.err != nil {
		f.mu.Lock()
		f.kept = slices.DeleteFunc(f.kept, func(o *keptForm) bool { return o == k })
		f.mu.Unlock()
		return nil, k.err
	}
	return k, nil
}

// call takes the grammar of a call of one of the tools.
func (f *forms) call(tools []grammar.Tool) (*keptForm, error) {
	key, err := json.Marshal(tools)
	if err != nil {
		return nil, err
	}
	return f.take("call", key, func() (*grammar.Grammar, error) { return grammar.Call(tools) })
}

func (f *forms) make(k *keptForm, compile func() (*grammar.Grammar, error)) error {
	v, err := f.vocabulary()
	if err != nil {
		return err
	}
	g, err := compile()
	if err != nil {
		return err
	}
	machine := grammar.NewMachine(g, v, formLeast, f.most)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fit(k, g.Bytes()); err != nil {
		return err
	}
	k.machine = machine
	f.share()
	return nil
}

// fit finds room for a grammar of so many bytes; those that nobody uses give way.
func (f *forms) fit(k *keptForm, bytes int64) error {
	if need := bytes + formLeast; need > formPool {
		return &FormError{Need: need, Limit: formPool, what: "the automaton of the schema"}
	}
	k.bytes = bytes
	for f.taken() > formPool {
		if !f.dropIdle() {
			k.bytes = 0
			return fmt.Errorf("%w take %d bytes, with %d more they would be over %d: ask again when some are answered",
				ErrFormsFull, f.taken(), bytes+formLeast, formPool)
		}
	}
	return nil
}

// taken is what grammars take at least.
func (f *forms) taken() int64 {
	n := int64(0)
	for _, k := range f.kept {
		if k.bytes > 0 {
			n += k.bytes + formLeast
		}
	}
	return n
}

// dropIdle lets go of the grammar that nobody uses since longest ago.
func (f *forms) dropIdle() bool {
	at := slices.IndexFunc(f.kept, func(k *keptForm) bool { return k.users == 0 })
	if at >= 0 {
		f.kept = slices.Delete(f.kept, at, at+1)
	}
	return at >= 0
}

// share gives all machines the same part of what grammars leave.
func (f *forms) share() {
	room, n := int64(formPool), int64(0)
	for _, k := range f.kept {
		if room -= k.bytes; k.machine != nil {
			n++
		}
	}
	for _, k := range f.kept {
		if k.machine != nil {
			k.machine.SetRoom(room / n)
		}
	}
}

// use counts another user.
func (f *forms) use(k *keptForm) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k.users++
}

// release gives a grammar back.
func (f *forms) release(k *keptForm) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k.users--
	idle := 0
	for _, k := range f.kept {
		if k.users == 0 {
			idle++
		}
	}
	if idle > keptForms && f.dropIdle() {
		f.share()
	}
}

// search does what may have to search for a mask, when nobody else does; it reports
// false when ctx ended before its turn.
func (f *forms) search(ctx context.Context, do func()) bool {
	select {
	case f.searching <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-f.searching }()
	if ctx.Err() != nil {
		return false
	}
	f.searches()
	do()
	return true
}

// ponder finds the first mask of a request, on the caller's goroutine; it reports false
// when ctx ended before.
func (g *generation) ponder(ctx context.Context) (bool, error) {
	var err error
	if !g.m.forms.search(ctx, func() { err = g.form.matcher.Look() }) {
		return false, nil
	}
	return true, g.formError(err)
}

// puzzle has it found out where the last token of a request has led to, beside the
// passes. Until then the request is in none. mu is held.
func (s *scheduler) puzzle(g *generation, id int32) {
	s.m.forms.use(g.form.kept)
	s.puzzles.Go(func() {
		defer s.m.forms.release(g.form.kept)
		var err error
		defer func() { s.solved(g, err, recover()) }()
		x := g.form.matcher
		s.m.forms.search(g.leaving, func() {
			x.Accept(id)
			err = g.formError(x.Look())
		})
	})
}

// solved goes on with a request.
func (s *scheduler) solved(g *generation, err error, panicked any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.puzzled = false
	switch {
	case g.over:
	case panicked != nil:
		g.panicked = panicked
		s.finish(g, "", ErrNumeric) // nobody sees it
	case err != nil:
		s.finish(g, "", err)
	default:
		s.went(g, g.form.moved(g))
	}
	g.tell()
	s.rouse()
}
