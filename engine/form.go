// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"windhover/engine/grammar"
)

// form holds an answer to a grammar, or the calls of tools in it. It begins behind the
// thinking: what the model says there is free. The scheduler's alone.
type form struct {
	kept           *keptForm
	matcher        *grammar.Matcher
	prefix, suffix []int32 // said for the model before and behind
	breath         []int32 // said for it between its thinking and the answer
	thinks         bool    // the first token may be the opening marker
	begun          bool
	closing        bool       // the value is whole, the suffix is being said
	told           bool       // the token that comes was not chosen
	calls          *heldCalls // not the answer is held, calls in it are; nil: the answer
}

// errNoToken: the vocabulary has no token that the form allows.
var errNoToken = fmt.Errorf("%w: no token of the vocabulary goes on with the answer as its schema says", ErrUnsupported)

// hold reads what form a request wants, and the tools it declares.
func (g *generation) hold() error {
	req, m := &g.req, g.m
	tools, err := readTools(req.Tools)
	if err != nil {
		return err
	}
	wanted := 0
	for _, w := range []bool{req.Schema != nil, req.JSONObject, req.MustCall} {
		if w {
			wanted++
		}
	}
	switch {
	case wanted == 0 && len(tools) == 0:
		return nil
	case m.tok == nil:
		return badRequest("json_schema, json_object and tools need a tokenizer")
	case wanted > 1:
		return badRequest("json_schema, json_object and a tool that must be called: one of them")
	case wanted == 1 && !req.MustCall && len(tools) > 0:
		return badRequest("json_schema and json_object do not go with tools: leave out one of them")
	}
	if len(tools) > 0 {
		g.tools = &toolParser{once: req.OneCall}
		for _, t := range tools {
			g.tools.names = append(g.tools.names, t.Name)
		}
	}
	if wanted == 0 {
		return g.holdCalls(tools)
	}
	f := &form{thinks: req.MayThink && m.marks.open >= 0 && !req.Raw}
	if m.marks.open >= 0 {
		f.breath = m.tok.Encode("\n\n", true)
	}
	if f.kept, err = g.grammar(plainTools(tools, false)); err != nil {
		return g.formError(err)
	}
	f.matcher = f.kept.machine.Matcher()
	if req.MustCall {
		f.prefix, f.suffix = m.tok.Encode(callOpen+callLead, true), m.tok.Encode(callTail, true)
	}
	g.form = f
	return nil
}

// formError says what of a request's form cannot be done.
func (g *generation) formError(err error) error {
	var bad *grammar.Error
	switch {
	case !errors.As(err, &bad):
		return err
	case g.req.Schema == nil && !g.req.JSONObject:
		return badRequest("%v", bad)
	}
	return badRequest("json_%v", bad)
}

// grammar is that of the form a request wants.
func (g *generation) grammar(tools []grammar.Tool) (*keptForm, error) {
	switch {
	case g.req.MustCall:
		if name := g.req.CallTool; name != "" {
			at := slices.IndexFunc(tools, func(t grammar.Tool) bool { return t.Name == name })
			if at < 0 {
				return nil, badRequest("tool %.80q is not among the tools", name)
			}
			tools = tools[at : at+1]
		}
		return g.m.forms.call(tools)
	case g.req.JSONObject:
		return g.m.forms.take("object", nil, func() (*grammar.Grammar, error) { return grammar.Object(), nil })
	default:
		return g.m.forms.take("schema", g.req.Schema, func() (*grammar.Grammar, error) { return grammar.Compile(g.req.Schema) })
	}
}

// before prepares the choice of a token outside the thinking.
func (f *form) before(g *generation, logits []float32) error {
	if f.calls != nil && !f.calls.inside {
		if f.told = len(g.forced) > 0; !f.told {
			f.calls.bar(logits)
		}
		return nil
	}
	mayThink := f.thinks && !f.begun && len(g.ids()) == 0
	if !f.begun && !mayThink && len(g.forced) == 0 {
		f.begun, g.forced = true, f.prefix
	}
	if f.told = len(g.forced) > 0; f.told {
		return nil
	}
	var mask []uint64
	free := make([]int32, 0, 8) // allowed beside the mask
	if mayThink {
		free = append(free, g.m.marks.open)
	}
	if !f.begun && len(f.prefix) > 0 {
		free = append(free, f.prefix[0])
	} else {
		if err := f.matcher.Look(); err != nil { // which was done before
			return g.formError(err)
		}
		mask = f.matcher.Mask()
		if f.matcher.Complete() {
			free = append(free, g.stops...)
		}
	}
	if mask == nil && len(free) == 0 {
		return errNoToken
	}
	apply(logits, mask, free)
	return nil
}

// apply takes all logits away but those of mask and of free.
func apply(logits []float32, mask []uint64, free []int32) {
	none := float32(math.Inf(-1))
	kept := make([]float32, 0, 8)
	for _, id := range free {
		if int(id) < len(logits) {
			kept = append(kept, logits[id])
		} else {
			kept = append(kept, none)
		}
	}
	for at := 0; at < len(logits); at += 64 {
		word := uint64(0)
		if mask != nil {
			word = mask[at/64]
		}
		if word == math.MaxUint64 {
			continue
		}
		for i := range logits[at:min(at+64, len(logits))] {
			if word>>i&1 == 0 {
				logits[at+i] = none
			}
		}
	}
	for i, id := range free {
		if int(id) < len(logits) {
			logits[id] = kept[i]
		}
	}
}

// behind takes a token that was said; inside says that it was one of the thinking.
// It reports true when the answer is whole.
func (f *form) behind(g *generation, id int32, inside bool) bool {
	switch {
	case inside:
		if !g.out.inside && len(g.forced) == 0 {
			g.forced = f.breath // the model closed its thinking itself
		}
	case g.out.inside: // the opening marker
	case f.calls != nil && !f.calls.inside:
		f.open(g, id)
	case f.closing:
		return len(g.forced) == 0 && f.close(g)
	case f.told:
	case !f.begun && len(f.prefix) > 0:
		f.begun, g.forced = true, f.prefix[1:]
	default:
		f.begun = true
		if g.puzzled = !f.matcher.Try(id); !g.puzzled {
			return f.moved(g)
		}
	}
	return false
}

// moved looks where the last token has led to; it reports true when the answer is whole.
func (f *form) moved(g *generation) bool {
	if !f.matcher.Ended() {
		return false
	}
	f.closing, g.forced = true, f.suffix
	return len(f.suffix) == 0
}

// ordinary are the bytes of a token that is no marker.
func (m *Model) ordinary(id int32) []byte {
	if m.tok.Added(id) {
		return nil
	}
	return m.tok.TokenBytes(id)
}
