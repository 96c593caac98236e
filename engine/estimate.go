// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"

	"windhover/vqf"
)

// Need is what a model takes in memory, in bytes.
type Need struct {
	Weights    int64 // in memory while it computes: all of those that compute, less in layered residency
	Private    int64 // of Weights, memory of this process; the rest are pages of the mapped file that stay
	KV         int64 // cache, of a full context at least; taken as it is written
	Scratch    int64 // buffers of the forward pass, about, and what pictures and forms of answers may take
	KVPerToken int64
	Touched    int64  // of the matrices, read for a token: of a mixture of experts those that compute
	Context    int    // tokens the figures are for
	Residency  string // ResidencyFull, ResidencyLayered or ResidencyExperts: how the weights are held
	Kept       int    // layers that stay in memory; all in full residency
	Experts    int    // of a mixture: how many have memory of their own; 0 where all are mapped
	Full       int64  // what full residency would have taken in all, where it was tried and did not fit; else 0

	packs    bool        // down of experts is copied to where it lies in one piece
	keepHead bool        // so does the head
	pictures pictureNeed // what pictures may cost: in Scratch, the tower's weights in Weights
}

// Total is weights, full cache and scratch.
func (n Need) Total() int64 { return n.Weights + n.KV + n.Scratch }

// Why says in a few words why the weights are held as they are.
func (n Need) Why() string {
	switch {
	case n.Full > 0:
		return fmt.Sprintf("%d bytes with all weights in memory are more than there is room for", n.Full)
	case n.Residency == ResidencyFull:
		return "all weights fit"
	}
	return "asked for"
}

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
	pictures  pictureCost
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
	if a.pictures, err = pictureCostOf(f, opt, len(cpus)); err != nil {
		return Need{}, c, err
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
	if err == nil {
		n = a.spendOnCache(n)
	}
	return n, c, err
}

// residencies are those that may be chosen, the fastest first.
func (a *admission) residencies() ([]string, error) {
	all := []string{ResidencyFull, ResidencyExperts, ResidencyLayered}
	if a.c.NExperts == 0 {
		all = []string{ResidencyFull, ResidencyLayered}
	}
	switch want := a.opt.Residency; {
	case want == "" || want == ResidencyAuto:
		return all, nil
	case want == ResidencyExperts && a.c.NExperts == 0:
		return nil, badRequest("residency %s: the model is no mixture of experts; use %s or %s", want, ResidencyAuto, ResidencyLayered)
	default:
		return []string{want}, nil
	}
}

// choose takes the first residency that fits; a shorter context, where nobody
// asked for one, goes before one that costs speed.
func (a *admission) choose() (Need, error) {
	list, err := a.residencies()
	if err != nil {
		return Need{}, err
	}
	lack := &MemoryError{Limit: a.opt.MemoryLimit}
	for _, residency := range list {
		n, ok := a.fit(residency)
		if ok {
			n = a.spend(n)
			n.Full = lack.Full
			return n, nil
		}
		if residency == ResidencyFull && len(list) > 1 {
			lack.Full = n.Total()
		}
		if lack.Need.Residency == "" || n.Total() < lack.Need.Total() {
			lack.Need = n
		}
	}
	return lack.Need, lack
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
		KV: a.cacheBytes(ctx), KVPerToken: kvPerToken(&a.c, kind), Context: ctx, Residency: residency,
		Scratch: scratchBytes(&a.c, a.workers, a.opt.sizes(ctx)), Touched: a.weights.touch,
	}
	if residency != ResidencyLayered {
		n.Kept, n.keepHead = a.weights.layers, true
	}
	switch all := a.c.Layers * a.c.NExperts; {
	case residency != ResidencyFull:
		n.Experts = min(2*a.c.TopK, all)
	case a.encrypted:
		n.Experts = all
	}
	n = a.weigh(n)
	n.pictures = a.pictures.choose(a.opt.MemoryLimit, n.Weights, ctx)
	n.Scratch += n.pictures.bytes
	if !a.opt.NoTokenizer {
		n.Scratch += formBytes(a.c.Vocab)
	}
	return n
}

// cacheBytes is the least that the KV cache takes: a context, or what was asked for
// in whole pages.
func (a *admission) cacheBytes(ctx int) int64 {
	kind := a.opt.kvKind()
	page := kvPageBytes(&a.c, kind)
	return max(kvBytes(&a.c, ctx, kind), a.opt.CacheBytes/page*page)
}

// spendOnCache gives the KV cache a context for each sequence, as far as a quarter of
// what the limit leaves reaches, unless its size was asked for.
func (a *admission) spendOnCache(n Need) Need {
	if a.opt.MemoryLimit <= 0 || a.opt.CacheBytes > 0 {
		return n
	}
	one := kvBytes(&a.c, n.Context, a.opt.kvKind())
	n.KV += min((a.opt.MemoryLimit-n.Total())/4/one, int64(a.opt.sequences()-1)) * one
	return n
}

// weigh sets what the weights of n take, the vision tower's among them.
func (a *admission) weigh(n Need) Need {
	n = a.weighText(n)
	tower := a.pictures.weights
	if n.Residency != ResidencyFull && !a.encrypted {
		tower = a.pictures.least // see sight: the rest is dropped behind it
	}
	n.Weights += tower
	if a.encrypted {
		n.Private += tower
	}
	return n
}

// weighText sets what the weights of n take. The embedding table counts only where
// it is mapped and stays: else its rows are read one by one.
func (a *admission) weighText(n Need) Need {
	w := &a.weights
	if !a.encrypted && n.Residency == ResidencyFull {
		n.Weights = w.all
		if n.packs {
			n.Weights, n.Private = w.all+w.down, w.down
		}
		return n
	}
	slots := int64(min(slotCount, w.layers-n.Kept)) * w.slot
	if n.Experts > 0 {
		slots += int64(n.Experts)*w.expert + int64(max(a.workers, expertReaders))*w.bounce
	}
	n.Weights = w.norms + int64(n.Kept)*w.layer + slots
	if n.keepHead {
		n.Weights += w.head
	}
	n.Private = n.Weights
	if !a.encrypted {
		n.Private = w.norms + slots // what is kept is mapped
	}
	return n
}

// spend uses what the limit leaves where not all fits: each byte that is kept need
// not be read again for every token. First the head, so that the slots are the
// layers' alone. Layered residency by name takes no more: it was asked for to take
// little. Else layers, of which every token takes all, then experts, of which it takes some.
func (a *admission) spend(n Need) Need {
	if n.Residency == ResidencyFull {
		if !a.encrypted && a.weights.down > 0 {
			n, _ = a.more(n, func(n *Need) { n.packs = true })
		}
		return n
	}
	n, ok := a.more(n, func(n *Need) { n.keepHead = true })
	if !ok || a.opt.Residency == ResidencyLayered {
		return n
	}
	for ok = true; ok && n.Kept < a.weights.layers; {
		n, ok = a.more(n, func(n *Need) { n.Kept++ })
	}
	if n.Experts == 0 || a.weights.expert == 0 {
		return n
	}
	most := a.c.Layers * a.c.TopK // what a token takes, where there is no limit
	if a.opt.MemoryLimit > 0 {
		most = min(a.c.Layers*a.c.NExperts, n.Experts+int((a.spendable()-n.Total())/a.weights.expert))
	}
	most = max(most, n.Experts)
	n, _ = a.more(n, func(n *Need) { n.Experts = most })
	return n
}

// spendable is how much of the limit experts may take, which take all that they can:
// memory of our own is nothing that the system can take back when others need some.
func (a *admission) spendable() int64 { return a.opt.MemoryLimit - a.opt.MemoryLimit/16 }

// more is n with a change, if that fits the limit.
func (a *admission) more(n Need, change func(*Need)) (Need, bool) {
	m := n
	change(&m)
	if m = a.weigh(m); a.opt.MemoryLimit > 0 && m.Total() > a.opt.MemoryLimit {
		return n, false
	}
	return m, true
}
