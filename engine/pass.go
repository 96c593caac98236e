// SPDX-License-Identifier: Apache-2.0

package engine

// span is what a pass computes of one sequence: tokens at positions that follow
// each other. A pass has one span, of a prompt, or several: tokens of different
// sequences beside each other read the weights once. Each row of a pass, a token
// at a position, is computed as if it were alone, so that who else is in the pass
// changes no bit.
type span struct {
	seq    *sequence // has pages for all of them
	tokens []int32   // at least one
	pos    int       // position of the first, what is before it is in seq's pages

	// Of the pass, set by begin and attend.
	row  int // of the first token in the buffers
	plan attentionPlan
	unit int // first unit of attention
}

// sizes is what a state has room for.
type sizes struct {
	ctx       int  // positions of a sequence
	chunk     int  // tokens of a prompt at once
	sequences int  // that are computed at once
	float     bool // the reference path
}

// sizes are those of the options, with a context.
func (o *Options) sizes(ctx int) sizes {
	return sizes{ctx: ctx, chunk: min(o.chunk(), ctx), sequences: o.sequences(), float: o.reference()}
}

// rows is the most rows of a pass: a chunk of one sequence, a token of each of the
// others.
func (z *sizes) rows() int { return z.chunk + z.sequences - 1 }

// logits is the most rows that get logits when they are not asked for all.
func (z *sizes) logits() int { return z.sequences }

// begin sets the pass up.
func (s *state) begin(spans []span) {
	s.spans, s.tokens, s.err = spans, 0, nil
	for i := range spans {
		sp := &spans[i]
		sp.row = s.tokens
		for range sp.tokens {
			s.spanOf[s.tokens] = int32(i)
			s.tokens++
		}
	}
	for _, in := range []operand{s.inDim, s.inAtt, s.inFFN} {
		if in.acts != nil {
			in.acts.SetTokens(s.tokens)
		}
	}
}

// rotations fills the rows of the rotary tables for the pass's positions.
func (s *state) rotations() {
	half := s.cfg.HeadDim / 2
	for i := range s.spans {
		sp := &s.spans[i]
		for t := range sp.tokens {
			at := (sp.row + t) * half
			s.rotation(s.cos[at:][:half], s.sin[at:][:half], sp.seq.scene, sp.pos+t)
		}
	}
}
