// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math"
	"slices"
	"strings"

	"windhover/engine/grammar"
)

// heldCalls holds the calls of tools in an answer that is free else: from behind the
// opening marker, which the model says where it likes, to the closing one, which is
// said for it. The marker is looked for in the text, as toolParser does, so that what
// becomes a call was held, by whatever tokens it began. The scheduler's alone.
type heldCalls struct {
	openings *openings
	start    *grammar.Matcher // at the beginning of a call; it is copied, so that its mask is known for each
	lead     []int32          // said for the model where it has not
	said     int              // bytes of the opening marker that the text ends with
	inside   bool             // of a call
}

// holdCalls holds the calls of an answer when one of the tools is strict: a call of it
// to its parameters, one of the others to any object.
func (g *generation) holdCalls(tools []declared) error {
	if !slices.ContainsFunc(tools, func(t declared) bool { return t.strict }) {
		return nil
	}
	for i, t := range tools {
		if slices.Index(g.tools.names, t.Name) != i {
			return badRequest("tools[%d]: name %.80q is that of another before it", i, t.Name)
		}
	}
	m := g.m
	openings, err := m.forms.openings()
	if err != nil {
		return err
	}
	kept, err := m.forms.call(plainTools(tools, true))
	if err != nil {
		return g.formError(err)
	}
	x := kept.machine.Matcher()
	g.form = &form{
		kept: kept, matcher: x, suffix: m.tok.Encode(callTail, true),
		calls: &heldCalls{openings: openings, start: x, lead: m.tok.Encode(callLead, true)},
	}
	g.tools.rigid = true
	return nil
}

// plainTools are tools for a grammar, which takes any arguments of those that are not
// strict when only those are to be held.
func plainTools(tools []declared, onlyStrict bool) []grammar.Tool {
	list := make([]grammar.Tool, len(tools))
	for i, t := range tools {
		if list[i] = t.Tool; onlyStrict && !t.strict {
			list[i].Parameters = nil
		}
	}
	return list
}

// bar takes the logits of tokens away by which a call may not begin.
func (c *heldCalls) bar(logits []float32) {
	for _, list := range [2][]int32{c.openings.whole, c.openings.rest[c.said]} {
		for _, id := range list {
			logits[id] = float32(math.Inf(-1))
		}
	}
}

// open looks for the beginning of a call in what a token says of the answer's text.
func (f *form) open(g *generation, id int32) {
	if !g.req.Raw && g.m.tok.Special(id) {
		return // no text
	}
	c := f.calls
	behind, found := "", false
	if c.said, behind, found = opened(c.said, string(g.m.tok.TokenBytes(id))); !found {
		return
	}
	x := *c.start
	c.inside, f.matcher = true, &x
	if behind == "" {
		g.forced = c.lead
	}
}

// close goes on behind what was held; it reports true when that was all.
func (f *form) close(g *generation) bool {
	if f.calls == nil {
		return true
	}
	f.closing, f.calls.inside = false, false
	return g.tools.once && !g.tools.lost
}

// opened follows text through the opening marker, of which there were said bytes before:
// how many there are now or, where it is whole, what is behind it. No byte but its first
// can begin it anew.
func opened(said int, text string) (now int, behind string, found bool) {
	for i := range len(text) {
		switch text[i] {
		case callOpen[said]:
			said++
		case callOpen[0]:
			said = 1
		default:
			said = 0
		}
		if said == len(callOpen) {
			return 0, text[i+1:], true
		}
	}
	return said, "", false
}

// openings are the tokens of a vocabulary that would open a call and go on with what
// cannot begin one. Only a line end may stand in the same token.
type openings struct {
	whole []int32                // those with the whole marker
	rest  [len(callOpen)][]int32 // those with the rest of it, by how many bytes were said
}

// findOpenings looks for them among size tokens.
func findOpenings(size int, token func(id int32) []byte) *openings {
	o := new(openings)
	wrong := func(behind string) bool { return behind != "" && behind != callLead }
	for id := range int32(size) {
		text := string(token(id))
		if _, behind, found := opened(0, text); found && wrong(behind) {
			o.whole = append(o.whole, id)
		}
		for said := 1; said < len(callOpen); said++ {
			if behind, found := strings.CutPrefix(text, callOpen[said:]); found && wrong(behind) {
				o.rest[said] = append(o.rest[said], id)
			}
		}
	}
	return o
}

// bytes is what they take in memory.
func (o *openings) bytes() int64 {
	n := cap(o.whole)
	for _, list := range o.rest {
		n += cap(list)
	}
	return 4 * int64(n)
}
