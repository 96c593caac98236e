// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// Logits computes tokens from an empty cache, chunk at a time (0: the model's
// own), and calls each for every position in order with its logits [vocab],
// valid during the call. An error from each ends it and is returned. The chunk
// changes no bit of the result.
//
// pictures fill the runs of image and video tokens, in order.
func (m *Model) Logits(ctx context.Context, tokens []int32, chunk int, each func(pos int, logits []float32) error, pictures ...*Picture) (err error) {
	end, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer end(&err)
	hide, err := m.showing(ctx, tokens, pictures)
	if err != nil {
		return evalError(ctx, err)
	}
	defer hide()
	return evalError(ctx, m.logits(tokens, chunk, each))
}

// evalError says in the context's words that it ended.
func evalError(ctx context.Context, err error) error {
	if cause := ctx.Err(); errors.Is(err, errStopped) && cause != nil {
		return fmt.Errorf("engine: stopped: %w", cause)
	}
	return err
}

func (m *Model) logits(tokens []int32, chunk int, each func(pos int, logits []float32) error) error {
	if err := m.checkTokens(tokens, m.seq.scene != nil); err != nil {
		return err
	}
	switch {
	case chunk == 0:
		chunk = m.chunk
	case chunk < 0 || chunk > m.chunk:
		return badRequest("chunk %d, the model was loaded with %d", chunk, m.chunk)
	}
	if len(tokens) > m.st.size.ctx {
		return &ContextError{Prompt: len(tokens), Context: m.st.size.ctx, Read: true}
	}
	m.st.growHead(headRows)
	m.seq.cut(0)
	for pos := 0; pos < len(tokens); {
		n := min(chunk, len(tokens)-pos)
		if err := m.feed(tokens[pos : pos+n]); err != nil {
			return err
		}
		for from := 0; from < n; from += headRows {
			rows := min(headRows, n-from)
			if err := m.head(from, rows); err != nil {
				return err
			}
			for i := range rows {
				if err := each(pos+from+i, m.st.logits[i*m.cfg.Vocab:][:m.cfg.Vocab]); err != nil {
					return err
				}
			}
		}
		pos += n
	}
	return nil
}

// Greedy continues tokens by n tokens, the best each time; end tokens are
// nothing special. margins are the best logit minus the second one. pictures are
// as for [Model.Logits].
func (m *Model) Greedy(ctx context.Context, tokens []int32, n int, pictures ...*Picture) (ids []int32, margins []float32, err error) {
	end, err := m.begin(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer end(&err)
	hide, err := m.showing(ctx, tokens, pictures)
	if err != nil {
		return nil, nil, evalError(ctx, err)
	}
	defer hide()
	ids, margins, err = m.greedy(tokens, n)
	return ids, margins, evalError(ctx, err)
}

func (m *Model) greedy(tokens []int32, n int) (ids []int32, margins []float32, err error) {
	if err := m.checkTokens(tokens, m.seq.scene != nil); err != nil {
		return nil, nil, err
	}
	if n < 1 || n > m.st.size.ctx-len(tokens) {
		return nil, nil, &ContextError{Prompt: len(tokens), MaxTokens: n, Context: m.st.size.ctx}
	}
	if err := m.prefill(tokens); err != nil {
		return nil, nil, err
	}
	for {
		logits := m.st.logits[:m.cfg.Vocab]
		best, err := argmax(logits, m.scratch.most)
		if err != nil {
			return ids, margins, err
		}
		second := float32(math.Inf(-1))
		for id, l := range logits {
			if id != int(best) {
				second = max(second, l)
			}
		}
		ids, margins = append(ids, best), append(margins, logits[best]-second)
		if len(ids) == n {
			return ids, margins, nil
		}
		if err := m.step(best); err != nil {
			return ids, margins, err
		}
	}
}

// prefill computes tokens from an empty cache, and the logits of the last.
func (m *Model) prefill(tokens []int32) error {
	m.seq.cut(0)
	for {
		n := min(len(tokens), m.chunk)
		if err := m.feed(tokens[:n]); err != nil {
			return err
		}
		if tokens = tokens[n:]; len(tokens) == 0 {
			return m.head(n-1, 1)
		}
	}
}

// NLL cuts tokens into windows without overlap and without BOS, each computed
// from an empty cache, and returns the mean negative log-likelihood in nats of
// the tokens that are scored: all but the first of each window. each, which may
// be nil, gets the value of every scored token in order.
func (m *Model) NLL(ctx context.Context, tokens []int32, window int, each func(pos int, nll float64)) (mean float64, scored int, err error) {
	if window < 2 {
		return 0, 0, badRequest("window %d, want 2 or more", window)
	}
	end, err := m.begin(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer end(&err)
	sum := 0.0
	for start := 0; start < len(tokens); start += window {
		part := tokens[start:min(start+window, len(tokens))]
		err := m.logits(part, 0, func(pos int, logits []float32) error {
			if pos+1 == len(part) {
				return nil
			}
			nll := logSumExp(logits) - float64(logits[part[pos+1]])
			if math.IsNaN(nll) {
				return fmt.Errorf("engine: position %d: %w", start+pos, ErrNumeric)
			}
			sum += nll
			scored++
			if each != nil {
				each(start+pos+1, nll)
			}
			return nil
		})
		if err != nil {
			return 0, scored, evalError(ctx, err)
		}
	}
	if scored == 0 {
		return 0, 0, badRequest("nothing to score in %d tokens", len(tokens))
	}
	return sum / float64(scored), scored, nil
}

// logSumExp is the logarithm of the sum of e to the power of each logit.
func logSumExp(logits []float32) float64 {
	top := math.Inf(-1)
	for _, l := range logits {
		top = max(top, float64(l))
	}
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l) - top)
	}
	return top + math.Log(sum)
}
