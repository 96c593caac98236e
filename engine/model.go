// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"windhover/engine/tokenizer"
	"windhover/kernels"
	"windhover/vqf"
)

// Model is a loaded model with room for one sequence. Its methods may be called
// from any goroutine; those that compute return [ErrBusy] while another does.
type Model struct {
	file    *vqf.File
	cfg     Config
	w       *weights
	pool    *kernels.Pool
	kv      *kvCache
	st      *state
	sampler *sampler
	tok     *tokenizer.Tokenizer // nil when loaded without
	tmpl    *tokenizer.Template  // nil when there is none
	marks   markers
	meta    *Meta
	info    Info
	chunk   int

	// mu is held by the one call that computes, and by Close. It guards what
	// follows.
	mu     sync.Mutex
	closed bool
	seq    []int32  // tokens whose keys and values are in kv, in order
	one    [1]int32 // the token of a single step
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

// Close waits for a running request to end, then frees everything. Cancel the
// request first. Closing twice is harmless.
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	return m.free()
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
	if m.file != nil {
		if cerr := m.file.Close(); err == nil {
			err = cerr
		}
	}
	return err
}

// begin takes the model for one call that computes, until end. The end of ctx
// stops the pass. A page fault of this goroutine becomes the call's error:
//
//	end, err := m.begin(ctx)
//	if err != nil {
//		return err
//	}
//	defer end(&err)
func (m *Model) begin(ctx context.Context) (end func(err *error), err error) {
	if !m.mu.TryLock() {
		return nil, ErrBusy
	}
	if m.closed {
		m.mu.Unlock()
		return nil, ErrClosed
	}
	if err := m.pool.Attach(); err != nil {
		m.mu.Unlock()
		return nil, fmt.Errorf("engine: %w", err)
	}
	unwatch := m.watch(ctx)
	old := debug.SetPanicOnFault(true)
	return func(err *error) {
		recovered := recover()
		debug.SetPanicOnFault(old)
		unwatch()
		m.pool.Detach()
		m.mu.Unlock()
		faultError(err, recovered)
	}, nil
}

// watch makes the end of ctx stop the pass; what it returns must be called
// before the next pass is prepared.
func (m *Model) watch(ctx context.Context) func() {
	m.st.stop.Store(ctx.Err() != nil)
	told := make(chan struct{})
	quit := context.AfterFunc(ctx, func() {
		m.st.stop.Store(true)
		close(told)
	})
	return func() {
		if !quit() {
			<-told // or it would stop the next request
		}
	}
}

// CheckAffinity reads back where the workers run and names those that are not
// on their CPU any more; nil for a model whose workers are not pinned, and
// [ErrBusy] while a request runs.
func (m *Model) CheckAffinity() error {
	if !m.mu.TryLock() {
		return ErrBusy
	}
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	return m.pool.CheckAffinity()
}

// checkTokens refuses what the model has no embedding for.
func (m *Model) checkTokens(tokens []int32) error {
	if len(tokens) == 0 {
		return badRequest("no tokens")
	}
	for i, id := range tokens {
		if id < 0 || int(id) >= m.cfg.Vocab {
			return badRequest("token %d at position %d, the vocabulary has %d", id, i, m.cfg.Vocab)
		}
		if id != 0 && (id == m.info.imageToken || id == m.info.videoToken) {
			return unsupported("token %d at position %d stands for a picture; pictures are not supported by this build yet", id, i)
		}
	}
	return nil
}

// reuse keeps of the sequence in the cache what the prompt begins with, and
// leaves at least one token to compute. It returns how many are kept.
func (m *Model) reuse(prompt []int32) int {
	n := 0
	for n < min(len(m.seq), len(prompt)-1) && m.seq[n] == prompt[n] {
		n++
	}
	m.seq = m.seq[:n]
	return n
}

// feed computes up to a chunk of tokens behind the sequence.
func (m *Model) feed(tokens []int32) error {
	if len(tokens) > m.kv.ctx-len(m.seq) {
		return &ContextError{Prompt: len(m.seq) + len(tokens), Context: m.kv.ctx}
	}
	if err := m.st.forward(tokens, len(m.seq)); err != nil {
		return fmt.Errorf("engine: position %d: %w", len(m.seq), err)
	}
	m.seq = append(m.seq, tokens...)
	return nil
}

// step computes one token and its logits.
func (m *Model) step(id int32) error {
	m.one[0] = id
	if err := m.feed(m.one[:]); err != nil {
		return err
	}
	return m.st.head(0, 1)
}
