// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"windhover/engine/pooling"
)

// PoolLast makes the embedding of a text of what the model has made of its last token;
// see [Meta.Pooling].
const PoolLast = pooling.Last

// maxEmbedNumbers bounds the vectors of a request: 4 MiB of them, 1024 of 1024.
const maxEmbedNumbers = 1 << 20

// EmbedRequest asks for the embeddings of texts. Client, Priority and Realm are as in
// [Request].
type EmbedRequest struct {
	// Texts are token lists, each with at least one, and with what the model wants at
	// its end; see [Model.EmbedTokens].
	Texts [][]int32
	// Dimensions cuts each vector to its first ones before it is given length 1, as
	// models allow that are trained for it; 0 leaves all of [Model.Dimensions].
	Dimensions int
	Client     string
	Priority   int
	Realm      string
}

// Embedded is what a request for embeddings took.
type Embedded struct {
	Usage  Usage
	Timing Timing
}

// Dimensions is how many numbers an embedding has; 0 where the model makes none.
func (m *Model) Dimensions() int {
	if m.meta.Pooling != PoolLast {
		return 0
	}
	return m.cfg.Dim
}

// EmbedTokens encodes a text to be embedded: with the tokens that the model wants around
// one. The names of special tokens in it are text.
func (m *Model) EmbedTokens(text string) []int32 {
	ids := append(m.tok.Prefix(), m.tok.Encode(text, false)...)
	return append(ids, m.tok.Suffix()...)
}

// Embed makes embeddings: the residual of each text's last token behind the final norm,
// scaled to length 1. each is given them in the order of the texts, of which i is the
// number, as they are made, on the caller's goroutine; an error that it returns ends all
// and is returned. Texts are computed beside each other, and beside requests of
// [Model.Generate], as many at once as there are places; none changes another's bits.
//
// Errors: the context's cause, [ErrUnsupported] where the model was not made for it,
// [ErrClosed], [ErrRequest], [ErrContextOverflow] for a text that is longer than the
// context, [ErrNumeric], *kernels.FaultError.
func (m *Model) Embed(ctx context.Context, req EmbedRequest, each func(i int, vector []float32) error) (*Embedded, error) {
	start := time.Now()
	texts, err := m.newEmbeddings(req)
	if err != nil {
		return nil, err
	}
	ctx, quit := context.WithCancelCause(ctx)
	next, ended := make(chan int, len(texts)), make(chan embedded, len(texts))
	for i := range texts {
		next <- i
	}
	close(next)
	var all sync.WaitGroup
	defer all.Wait()
	defer quit(nil)
	for range min(m.Info().Sequences, len(texts)) {
		all.Go(func() {
			for i := range next {
				if ctx.Err() != nil {
					return
				}
				ended <- m.embed(ctx, texts[i], i)
			}
		})
	}
	vectors := make([][]float32, len(texts))
	for told := 0; told < len(texts); {
		select {
		case e := <-ended:
			if e.panicked != nil {
				panic(e.panicked)
			}
			if e.err == nil {
				vectors[e.text], e.err = unit(texts[e.text].pooled, req.Dimensions)
			}
			if e.err != nil && len(texts) > 1 && ctx.Err() == nil {
				e.err = fmt.Errorf("text %d: %w", e.text, e.err)
			}
			if e.err != nil {
				return nil, e.err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		for ; told < len(texts) && vectors[told] != nil; told++ {
			if err := each(told, vectors[told]); err != nil {
				return nil, err
			}
			vectors[told] = nil
		}
	}
	return embedTotals(texts, start), nil
}

// embedded is the end of a text.
type embedded struct {
	text     int
	err      error
	panicked any // to go on in the caller
}

// embed computes one text.
func (m *Model) embed(ctx context.Context, g *generation, i int) (e embedded) {
	e.text = i
	defer func() { e.panicked = recover() }()
	g.start = time.Now()
	if e.err = m.sched.enter(g); e.err != nil {
		return e
	}
	if _, e.err = g.follow(ctx, nil); e.err == nil && g.finish != FinishStop {
		e.err = context.Cause(ctx)
	}
	return e
}

// newEmbeddings checks a request against the model.
func (m *Model) newEmbeddings(req EmbedRequest) ([]*generation, error) {
	switch m.meta.Pooling {
	case PoolLast:
	case "":
		return nil, unsupported("this model makes no embeddings: it continues text; load one that is made for them (Qwen3-Embedding)")
	default:
		return nil, unsupported("embeddings by pooling %q; this build knows %q", m.meta.Pooling, PoolLast)
	}
	if req.Dimensions < 0 || req.Dimensions > m.cfg.Dim {
		return nil, badRequest("dimensions %d, the model has 1 to %d", req.Dimensions, m.cfg.Dim)
	}
	if n := len(req.Texts); n == 0 || n > maxEmbedNumbers/m.cfg.Dim {
		return nil, badRequest("%d texts to embed, with %d numbers for each 1 to %d", n, m.cfg.Dim, maxEmbedNumbers/m.cfg.Dim)
	}
	var list []*generation
	for i, tokens := range req.Texts {
		if err := m.checkTokens(tokens, false); err != nil {
			return nil, fmt.Errorf("text %d: %w", i, err)
		}
		if size := m.st.size.ctx; len(tokens) > size {
			return nil, fmt.Errorf("text %d: %w", i, &ContextError{Prompt: len(tokens), Context: size, Read: true})
		}
		list = append(list, &generation{
			m: m, req: Request{Tokens: tokens, Client: req.Client, Priority: req.Priority, Realm: req.Realm},
			prompt: tokens, all: tokens[:len(tokens):len(tokens)], bell: make(chan struct{}, 1), realm: realmOf(req.Realm),
			pooled: make([]float32, m.cfg.Dim),
		})
	}
	return list, nil
}

// embedTotals sums up what texts took, which wait and are computed at the same time.
func embedTotals(texts []*generation, start time.Time) *Embedded {
	var e Embedded
	begun, ready := texts[0].begun, texts[0].ready
	for _, g := range texts {
		if g.begun.Before(begun) {
			begun = g.begun
		}
		if g.ready.After(ready) {
			ready = g.ready
		}
		e.Usage.Prompt += len(g.prompt)
		e.Usage.Cached += g.cached
	}
	e.Timing = Timing{Total: time.Since(start), Wait: begun.Sub(start), Prefill: ready.Sub(begun)}
	e.Timing.PrefillTPS = rate(e.Usage.Prompt-e.Usage.Cached, e.Timing.Prefill)
	return &e
}

// unit is the first n of x (0: all) as a vector of length 1. The sum is in float64 and
// in order, where products of two float32 are exact: the same on every machine.
func unit(x []float32, n int) ([]float32, error) {
	if n > 0 {
		x = x[:n]
	}
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	if !(sum > 0) || math.IsInf(sum, 0) {
		return nil, ErrNumeric
	}
	length := math.Sqrt(sum)
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(float64(v) / length)
	}
	return out, nil
}
