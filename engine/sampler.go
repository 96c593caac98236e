// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math"
	"math/rand/v2"

	"windhover/kernels"
)

// sampler turns logits into a token. The filters follow Hugging Face's order
// and meaning, which is what a model's generation defaults are written for:
//
//  1. repetition penalty: each token that occurs in the prompt or the answer
//     has its logit divided by the penalty when positive, multiplied when not;
//  2. temperature: logits are divided by it; 0 takes the best token and stops
//     here;
//  3. top-k: the k best remain;
//  4. top-p: the fewest best tokens whose probabilities reach p remain, at
//     least one;
//  5. min-p: tokens with at least min_p times the best one's probability
//     remain;
//  6. one of the rest is drawn by its share of their probabilities.
//
// (llama.cpp divides by the temperature last; only what top-p and min-p keep
// depends on that.) Of equal logits the lower id is better. Probabilities are
// kernels.Exp of float32 differences to the best logit, their sums float64 in
// the order the candidates are walked: best first when top-k or top-p is on, by
// id otherwise. The random numbers are PCG-DXSM (math/rand/v2) seeded with
// (seed, seedStream), one Uint64 u for each token drawn, as (u>>11) * 2^-53.
type sampler struct {
	opt  Sampling
	pcg  rand.PCG
	seen []bool      // [vocab] occurs in the prompt or the answer; for the penalty
	cand []candidate // [vocab] scratch
}

type candidate struct {
	logit float32 // after weigh: its probability as a share of the best one's
	id    int32
}

// seedStream is the second half of the PCG seed; the first is the request's.
const seedStream = 0x77696e64686f7665

func newSampler(vocab int) *sampler {
	return &sampler{seen: make([]bool, vocab), cand: make([]candidate, vocab)}
}

// check refuses options that mean nothing.
func (o *Sampling) check() error {
	finite := func(v float32) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }
	switch {
	case !finite(o.Temperature) || o.Temperature < 0:
		return badRequest("temperature %v, want 0 or more", o.Temperature)
	case o.TopK < 0:
		return badRequest("top_k %d, want 0 or more", o.TopK)
	case !finite(o.TopP) || o.TopP < 0:
		return badRequest("top_p %v, want 0 to 1", o.TopP)
	case !finite(o.MinP) || o.MinP < 0 || o.MinP > 1:
		return badRequest("min_p %v, want 0 to 1", o.MinP)
	case !finite(o.RepeatPenalty) || o.RepeatPenalty < 0:
		return badRequest("repeat_penalty %v, want 0 or more", o.RepeatPenalty)
	}
	return nil
}

// reset begins a request.
func (s *sampler) reset(opt Sampling, prompt []int32) {
	s.opt = opt
	s.pcg.Seed(opt.Seed, seedStream)
	if s.penalises() {
		clear(s.seen)
		for _, id := range prompt {
			s.seen[id] = true
		}
	}
}

func (s *sampler) penalises() bool {
	return s.opt.RepeatPenalty != 0 && s.opt.RepeatPenalty != 1
}

// accept tells the sampler of a token of the answer.
func (s *sampler) accept(id int32) {
	if s.penalises() {
		s.seen[id] = true
	}
}

// pick draws a token; it may change logits. ErrNumeric when there is no best
// logit (NaN, or nothing but infinities).
func (s *sampler) pick(logits []float32) (int32, error) {
	if s.penalises() {
		penalty := s.opt.RepeatPenalty
		for id, seen := range s.seen {
			switch {
			case !seen:
			case logits[id] > 0:
				logits[id] /= penalty
			default:
				logits[id] *= penalty
			}
		}
	}
	best, err := argmax(logits)
	if err != nil || s.opt.Temperature == 0 || s.opt.TopK == 1 {
		return best, err
	}
	cand := s.cand[:len(logits)]
	if s.opt.TopK > 0 || s.opt.TopP > 0 && s.opt.TopP < 1 {
		cand = s.best(logits, logits[best])
	} else {
		for id, l := range logits {
			cand[id] = candidate{l, int32(id)}
		}
	}
	return s.draw(s.weigh(cand, logits[best])), nil
}

// argmax returns the first of the largest logits.
func argmax(logits []float32) (int32, error) {
	best, top := -1, float32(math.Inf(-1))
	for id, l := range logits {
		if l > top {
			best, top = id, l
		}
		if l != l {
			return 0, ErrNumeric
		}
	}
	if best < 0 || math.IsInf(float64(top), 1) {
		return 0, ErrNumeric
	}
	return int32(best), nil
}

// weigh puts probabilities, as shares of the best one's, in the place of logits
// and leaves out what has none and what min-p throws out. The best remains.
func (s *sampler) weigh(cand []candidate, top float32) []candidate {
	kept := cand[:0]
	for _, c := range cand {
		w := kernels.Exp((c.logit - top) / s.opt.Temperature)
		if w > 0 && w >= s.opt.MinP {
			kept = append(kept, candidate{w, c.id})
		}
	}
	return kept
}

// best returns the candidates that top-k and top-p leave, best first.
func (s *sampler) best(logits []float32, top float32) []candidate {
	if s.opt.TopP <= 0 || s.opt.TopP >= 1 {
		return s.top(logits, s.opt.TopK)
	}
	if s.opt.TopK > 0 {
		cand := s.top(logits, s.opt.TopK)
		kept, _ := s.nucleus(cand, top, s.sum(cand, top))
		return kept
	}
	total := 0.0
	for _, l := range logits {
		total += s.share(l, top)
	}
	// Few tokens carry most of the probability: look at more only when needed.
	for k := 64; ; k *= 8 {
		kept, reached := s.nucleus(s.top(logits, k), top, total)
		if reached || k >= len(logits) {
			return kept
		}
	}
}

// share is the unnormalised probability of a logit.
func (s *sampler) share(logit, top float32) float64 {
	return float64(kernels.Exp((logit - top) / s.opt.Temperature))
}

func (s *sampler) sum(cand []candidate, top float32) float64 {
	sum := 0.0
	for _, c := range cand {
		sum += s.share(c.logit, top)
	}
	return sum
}

// nucleus cuts cand, best first, behind the token that reaches top-p of total;
// it reports whether there is one.
func (s *sampler) nucleus(cand []candidate, top float32, total float64) ([]candidate, bool) {
	sum := 0.0
	for i, c := range cand {
		sum += s.share(c.logit, top)
		if sum >= float64(s.opt.TopP)*total {
			return cand[:i+1], true
		}
	}
	return cand, false
}

// top returns the k best candidates, best first: a heap with the worst of them
// on top while all are looked at, then sorted by taking the worst off.
func (s *sampler) top(logits []float32, k int) []candidate {
	k = min(k, len(logits))
	heap := s.cand[:k]
	for id, l := range logits {
		c := candidate{l, int32(id)}
		switch {
		case id < k-1:
			heap[id] = c
		case id == k-1:
			heap[id] = c
			for i := k/2 - 1; i >= 0; i-- {
				sift(heap, i)
			}
		case c.better(heap[0]):
			heap[0] = c
			sift(heap, 0)
		}
	}
	for n := k - 1; n > 0; n-- {
		heap[0], heap[n] = heap[n], heap[0]
		sift(heap[:n], 0)
	}
	return heap
}

func (c candidate) better(than candidate) bool {
	return c.logit > than.logit || c.logit == than.logit && c.id < than.id
}

// sift moves heap[i] down until no child is worse than it.
func sift(heap []candidate, i int) {
	for {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && heap[child].better(heap[child+1]) {
			child++
		}
		if !heap[i].better(heap[child]) {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}

// draw takes a candidate by its share of the weights.
func (s *sampler) draw(cand []candidate) int32 {
	total := 0.0
	for _, c := range cand {
		total += float64(c.logit)
	}
	u := float64(s.pcg.Uint64()>>11) * 0x1p-53 * total
	for _, c := range cand {
		if u -= float64(c.logit); u < 0 {
			return c.id
		}
	}
	return cand[len(cand)-1].id // rounding left nothing to go below
}
