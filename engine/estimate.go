// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"

	"windhover/vqf"
)

// Need is what a model takes in memory, in bytes.
type Need struct {
	Weights    int64 // of the mapped file, the tensors that compute
	KV         int64 // cache of a full context; taken as the context grows
	Scratch    int64 // buffers of the forward pass, about
	KVPerToken int64
	Context    int // tokens the figures are for
}

// Total is weights, full cache and scratch.
func (n Need) Total() int64 { return n.Weights + n.KV + n.Scratch }

// Estimate tells what [Load] with the same options would need, from header and
// directory alone. An [*MemoryError] comes with the figures for the smallest
// context that was tried.
func Estimate(path string, opt Options) (Need, error) {
	f, err := vqf.Open(path, opt.VQF)
	if err != nil {
		return Need{}, fmt.Errorf("engine: %w", err)
	}
	need, _, err := admit(f, opt)
	if cerr := f.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("engine: %w", cerr)
	}
	return need, err
}

// minContext is the context under which a memory limit does not push a model
// by itself.
const minContext = 512

// contextStep is what a context is a multiple of when the memory limit chooses
// it.
const contextStep = 256

// admit checks options and file, chooses the context and holds the need
// against the limit.
func admit(f *vqf.File, opt Options) (Need, Config, error) {
	c, err := configOf(f.Arch(), f.Flags())
	if err != nil {
		return Need{}, c, fmt.Errorf("engine: %s: %w", f.Path(), err)
	}
	if err := opt.check(); err != nil {
		return Need{}, c, err
	}
	family, err := chooseFamily(f, opt.Family)
	if err != nil {
		return Need{}, c, err
	}
	cpus, err := opt.cpus()
	if err != nil {
		return Need{}, c, err
	}
	ctx, fixed := opt.Context, opt.Context > 0
	switch {
	case !fixed && c.MaxSeq == 0:
		return Need{}, c, fmt.Errorf("engine: %s: max_seq_len is 0; set a context", f.Path())
	case !fixed:
		ctx = c.MaxSeq
	case ctx > maxContext:
		return Need{}, c, badRequest("context %d, the most is %d", ctx, maxContext)
	}
	weights := tensorBytes(f, family)
	elem := 2
	if opt.reference() {
		elem = 4
	}
	need := func(ctx int) Need {
		return Need{
			Weights: weights, KV: kvBytes(&c, ctx, elem), KVPerToken: kvBytes(&c, 1, elem), Context: ctx,
			Scratch: scratchBytes(&c, len(cpus), ctx, opt.chunk(), opt.reference()),
		}
	}
	n := need(ctx)
	if opt.MemoryLimit <= 0 || n.Total() <= opt.MemoryLimit {
		return n, c, nil
	}
	if !fixed {
		least := min(minContext, ctx)
		for ctx = ctx / contextStep * contextStep; ctx >= least; ctx -= contextStep {
			if n = need(ctx); n.Total() <= opt.MemoryLimit {
				return n, c, nil
			}
		}
		n = need(least)
	}
	return n, c, &MemoryError{Need: n, Limit: opt.MemoryLimit}
}

// tensorBytes sums the tensors that a family computes with.
func tensorBytes(f *vqf.File, family string) int64 {
	names := []string{"token_embed", "final_norm", "attn_norm", "ffn_norm", "q_norm", "k_norm"}
	for _, part := range []string{"q", "k", "v", "o", "gate", "up", "down", "lm"} {
		names = append(names, family+"_"+part)
	}
	sum := int64(0)
	for _, name := range names {
		if t, ok := f.Tensor(name); ok {
			sum += int64(t.Bytes) // within the file, whose size is an int64
		}
	}
	return sum
}
