// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"

	"windhover/vqf"
)

// Need is what a model takes in memory, in bytes.
type Need struct {
	Weights    int64 // in memory while it computes: all of those that compute, less in layered residency
	Private    int64 // of Weights, memory of this process; the rest are pages of the mapped file
	KV         int64 // cache of a full context; taken as the context grows
	Scratch    int64 // buffers of the forward pass, about
	KVPerToken int64
	Context    int    // tokens the figures are for
	Residency  string // ResidencyFull or ResidencyLayered: how the weights are held
	Kept       int    // layers that stay in memory; all in full residency

	keepHead bool // so does the head
}

// Total is weights, full cache and scratch.
func (n Need) Total() int64 { return n.Weights + n.KV + n.Scratch }

// Estimate tells what [Load] with the same options would need, from header and
// directory alone; nothing is hashed. An [*MemoryError] comes with the least
// figures that were tried.
func Estimate(path string, opt Options) (Need, error) {
	f, err := openUnread(path, opt)
	if err != nil {
		return Need{}, err
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

// admission holds the need of a file against the limit.
type admission struct {
	c         Config
	opt       Options
	weights   footprint
	encrypted bool
	workers   int
	context   int  // asked for, or the file's
	fixed     bool // asked for
}

// admit checks options and file, and chooses residency and context.
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
	a := admission{
		c: c, opt: opt, weights: footprintOf(f, &c, family), encrypted: f.Flags()&vqf.FlagEnc != 0, workers: len(cpus),
		context: opt.Context, fixed: opt.Context > 0,
	}
	switch {
	case !a.fixed && c.MaxSeq == 0:
		return Need{}, c, fmt.Errorf("engine: %s: max_seq_len is 0; set a context", f.Path())
	case !a.fixed:
		a.context = c.MaxSeq
	case a.context > maxContext:
		return Need{}, c, badRequest("context %d, the most is %d", a.context, maxContext)
	}
	n, err := a.choose()
	return n, c, err
}

// choose takes the first residency that fits; a shorter context, where nobody
// asked for one, goes before layered residency, which costs speed.
func (a *admission) choose() (Need, error) {
	var tried []Need
	if a.opt.Residency != ResidencyLayered {
		n, ok := a.fit(ResidencyFull)
		if ok {
			return n, nil
		}
		tried = append(tried, n)
	}
	if a.opt.Residency != ResidencyFull {
		n, ok := a.fit(ResidencyLayered)
		if ok {
			return a.spend(n), nil
		}
		tried = append(tried, n)
	}
	err := &MemoryError{Need: tried[len(tried)-1], Limit: a.opt.MemoryLimit}
	if len(tried) > 1 {
		err.Full = tried[0].Total()
	}
	return err.Need, err
}

// fit finds the longest context with which a residency fits the limit. If none
// does, the need is that of the shortest.
func (a *admission) fit(residency string) (Need, bool) {
	limit := a.opt.MemoryLimit
	n := a.need(residency, a.context)
	if limit <= 0 || n.Total() <= limit {
		return n, true
	}
	if a.fixed {
		return n, false
	}
	least := min(minContext, a.context)
	for ctx := a.context / contextStep * contextStep; ctx >= least; ctx -= contextStep {
		if n = a.need(residency, ctx); n.Total() <= limit {
			return n, true
		}
	}
	return a.need(residency, least), false
}

// need is the least that a residency takes.
func (a *admission) need(residency string, ctx int) Need {
	kind := a.opt.kvKind()
	n := Need{
		KV: kvBytes(&a.c, ctx, kind), KVPerToken: kvPerToken(&a.c, kind), Context: ctx, Residency: residency,
		Scratch: scratchBytes(&a.c, a.workers, ctx, a.opt.chunk(), a.opt.reference()),
	}
	if residency == ResidencyFull {
		n.Kept, n.keepHead = a.weights.layers, true
	}
	// The head of a plain file is the page cache's to drop; see mapped.
	n.keepHead = n.keepHead || !a.encrypted
	return a.weigh(n)
}

// weigh sets what the weights of n take. The embedding table counts only where
// it is mapped and stays: else its rows are read one by one, or are pages that
// nobody holds.
func (a *admission) weigh(n Need) Need {
	w := &a.weights
	if !a.encrypted && n.Residency == ResidencyFull {
		n.Weights = w.all
		return n
	}
	n.Weights = w.norms + int64(n.Kept+min(slotCount, w.layers-n.Kept))*w.layer
	if n.keepHead {
		n.Weights += w.head
	}
	if a.encrypted {
		n.Private = n.Weights
	}
	return n
}

// spend uses what the limit leaves to an encrypted model in layered residency:
// each byte that is kept need not be read and deciphered again for every token.
// First the head, so that the slots are the layers' alone; then, unless layered residency was asked for by name and so the
// least memory, as many layers as fit.
func (a *admission) spend(n Need) Need {
	if !a.encrypted {
		return n
	}
	fits := func(n Need) bool { return a.opt.MemoryLimit <= 0 || n.Total() <= a.opt.MemoryLimit }
	more := n
	more.keepHead = true
	if more = a.weigh(more); !fits(more) {
		return n
	}
	n = more
	for a.opt.Residency != ResidencyLayered && n.Kept < a.weights.layers {
		more.Kept++
		if more = a.weigh(more); !fits(more) {
			break
		}
		n = more
	}
	return n
}
