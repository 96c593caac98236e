// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math"
	"math/rand/v2"
	"slices"

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
	*scratch
	opt    Sampling
	pcg    rand.PCG
	seen   []bool  // [vocab] occurs in the prompt or the answer; nil without a penalty
	listed []int32 // those, in no order; room for all
}

// scratch is what samplers that take turns share.
type scratch struct {
	cand []candidate // [vocab]
	most []float32   // [vocab/kernels.MaxBlock, rounded up] the largest logit of each block
	raw  []float32   // [vocab] before any change, for logprobs; nil until the first are asked for
}

// shareBlock is how many probabilities are computed at once.
const shareBlock = 512

type candidate struct {
	logit float32 // after weigh: its probability as a share of the best one's
	id    int32
}

// seedStream is the second half of the PCG seed; the first is the request's.
const seedStream = 0x77696e64686f7665

func newScratch(vocab int) *scratch {
	return &scratch{cand: make([]candidate, vocab), most: make([]float32, maxBlocks(vocab))}
}

// maxBlocks is how many blocks of kernels.MaxBlocks n values have.
func maxBlocks(n int) int { return (n + kernels.MaxBlock - 1) / kernels.MaxBlock }

// samplerBytes is about what newScratch allocates, and samplers that penalise.
func samplerBytes(vocab, samplers int) int64 {
	return int64(vocab)*(8+5*int64(samplers)) + 4*int64(maxBlocks(vocab))
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

// newSampler makes the sampler of a request.
func newSampler(shared *scratch, opt Sampling, prompt []int32) *sampler {
	s := &sampler{scratch: shared, opt: opt}
	s.pcg.Seed(opt.Seed, seedStream)
	if s.penalises() {
		s.seen, s.listed = make([]bool, len(s.cand)), make([]int32, 0, len(s.cand))
	}
	for _, id := range prompt {
		s.accept(id)
	}
	return s
}

func (s *sampler) penalises() bool {
	return s.opt.RepeatPenalty != 0 && s.opt.RepeatPenalty != 1
}

// accept tells the sampler of a token of the prompt or the answer.
func (s *sampler) accept(id int32) {
	if s.penalises() && !s.seen[id] {
		s.seen[id] = true
		s.listed = append(s.listed, id)
	}
}

// pick draws a token; it may change logits. ErrNumeric when there is no best
// logit (NaN, or nothing but infinities).
func (s *sampler) pick(logits []float32) (int32, error) {
	if s.penalises() {
		penalty := s.opt.RepeatPenalty
		for _, id := range s.listed {
			if logits[id] > 0 {
				logits[id] /= penalty
			} else {
				logits[id] *= penalty
			}
		}
	}
	best, err := argmax(logits, s.most)
	if err != nil || s.opt.Temperature == 0 || s.opt.TopK == 1 {
		return best, err
	}
	var cand []candidate
	if s.opt.TopK > 0 || s.opt.TopP > 0 && s.opt.TopP < 1 {
		cand = s.weigh(s.best(logits, logits[best]), logits[best])
	} else {
		cand = s.all(logits, logits[best])
	}
	return s.draw(cand), nil
}

// argmax returns the first of the largest logits, and in most those of the blocks.
func argmax(logits, most []float32) (int32, error) {
	kernels.MaxBlocks(most, logits)
	block, top := -1, float32(math.Inf(-1))
	for b, l := range most {
		if l > top {
			block, top = b, l
		}
		if l != l {
			return 0, ErrNumeric
		}
	}
	if block < 0 || math.IsInf(float64(top), 1) {
		return 0, ErrNumeric
	}
	id := block * kernels.MaxBlock
	for logits[id] != top {
		id++
	}
	return int32(id), nil
}

// all is weigh for every token.
func (s *sampler) all(logits []float32, top float32) []candidate {
	kept := s.cand[:len(logits)]
	n := 0
	var block [shareBlock]float32
	for at := 0; at < len(logits); at += shareBlock {
		for i, w := range s.shares(&block, logits[at:], top) {
			if w > 0 && w >= s.opt.MinP {
				kept[n] = candidate{w, int32(at + i)}
				n++
			}
		}
	}
	return kept[:n]
}

// total is the sum of all tokens' shares.
func (s *sampler) total(logits []float32, top float32) float64 {
	sum := 0.0
	var block [shareBlock]float32
	for at := 0; at < len(logits); at += shareBlock {
		for _, w := range s.shares(&block, logits[at:], top) {
			sum += float64(w)
		}
	}
	return sum
}

// shares fills a block with the unnormalised probabilities of the next tokens.
func (s *sampler) shares(block *[shareBlock]float32, logits []float32, top float32) []float32 {
	w := block[:min(shareBlock, len(logits))]
	kernels.Exps(w, logits[:len(w)], top, s.opt.Temperature)
	return w
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
	total := s.total(logits, top)
	// Few tokens carry most of the probability: look at more only when needed.
	if kept, reached := s.nucleus(s.top(logits, fewTop), top, total); reached {
		return kept
	}
	kept, reached := s.nucleus(s.atLeast(logits, top, float64(s.opt.TopP)*total), top, total)
	if !reached {
		kept, _ = s.nucleus(s.top(logits, len(logits)), top, total)
	}
	return kept
}

const (
	fewTop      = 64  // tokens that are looked at first
	massBuckets = 832 // of logits at temperature 1, the eighth of a nat each: down to where Exp is 0
)

// atLeast returns the best tokens, best first, whose shares sum to about mass or
// more.
func (s *sampler) atLeast(logits []float32, top float32, mass float64) []candidate {
	bucket := func(l float32) int { return int(min((top-l)/s.opt.Temperature*8, massBuckets-1)) }
	var buckets [massBuckets]float64
	var block [shareBlock]float32
	for at := 0; at < len(logits); at += shareBlock {
		for i, w := range s.shares(&block, logits[at:], top) {
			buckets[bucket(logits[at+i])] += float64(w)
		}
	}
	last, sum := 0, buckets[0]
	for sum < mass && last < massBuckets-1 {
		last++
		sum += buckets[last]
	}
	cand := s.cand[:0]
	for id, l := range logits {
		if bucket(l) <= last {
			cand = append(cand, candidate{l, int32(id)})
		}
	}
	slices.SortFunc(cand, func(a, b candidate) int {
		if a.better(b) {
			return -1
		}
		return 1
	})
	return cand
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

// top returns the k best candidates, best first, after argmax: a heap with the
// worst of them on top while what may be among them is looked at, then sorted by
// taking the worst off. The k best blocks have k logits as good as the least of
// their largest, so that no block below that has one of the k best.
func (s *sampler) top(logits []float32, k int) []candidate {
	k = min(k, len(logits))
	least := s.bound(k)
	heap := s.cand[:0]
	for b, most := range s.most {
		if most < least || len(heap) == k && most < heap[0].logit {
			continue
		}
		at := b * kernels.MaxBlock
		for i, l := range logits[at:min(at+kernels.MaxBlock, len(logits))] {
			if l < least {
				continue
			}
			c := candidate{l, int32(at + i)}
			switch {
			case len(heap) < k-1:
				heap = append(heap, c)
			case len(heap) == k-1:
				heap = append(heap, c)
				heapify(heap)
			case c.better(heap[0]):
				heap[0] = c
				sift(heap, 0)
			}
		}
	}
	for n := k - 1; n > 0; n-- {
		heap[0], heap[n] = heap[n], heap[0]
		sift(heap[:n], 0)
	}
	return heap
}

// bound is the k-th largest of the blocks' largest logits, or less than all where
// there are fewer blocks: a heap of the k largest, the least of them on top.
func (s *sampler) bound(k int) float32 {
	if k > len(s.most) {
		return float32(math.Inf(-1))
	}
	heap := s.cand[:k]
	for b, l := range s.most[:k] {
		heap[b] = candidate{l, int32(b)}
	}
	heapify(heap)
	for b, l := range s.most[k:] {
		if l > heap[0].logit {
			heap[0] = candidate{l, int32(k + b)}
			sift(heap, 0)
		}
	}
	return heap[0].logit
}

func (c candidate) better(than candidate) bool {
	return c.logit > than.logit || c.logit == than.logit && c.id < than.id
}

// heapify puts the worst on top.
func heapify(heap []candidate) {
	for i := len(heap)/2 - 1; i >= 0; i-- {
		sift(heap, i)
	}
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
