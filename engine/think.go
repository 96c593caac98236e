// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"unicode"

	"windhover/engine/tokenizer"
)

// Markers a reasoning model puts around its thinking.
const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// markers are the tokens of the thinking markers; -1 where the vocabulary has
// no single token for one.
type markers struct {
	open, close int32
	end         []int32 // what ends the thinking when its budget is used up
}

func findMarkers(t *tokenizer.Tokenizer) markers {
	m := markers{open: -1, close: -1}
	if t == nil {
		return m
	}
	open, ok := t.ID(thinkOpen)
	if !ok {
		return m
	}
	end, ok := t.ID(thinkClose)
	if !ok {
		return m
	}
	m.open, m.close = open, end
	m.end = t.Encode("\n"+thinkClose+"\n\n", true)
	return m
}

// openAtEnd tells whether a prompt ends inside thinking: an opening marker with
// nothing but white space behind it, as the templates of thinking models end.
func (m markers) openAtEnd(t *tokenizer.Tokenizer, prompt []int32) bool {
	if m.open < 0 {
		return false
	}
	for i := len(prompt) - 1; i >= 0; i-- {
		if prompt[i] == m.open {
			return true
		}
		if strings.TrimSpace(string(t.TokenBytes(prompt[i]))) != "" {
			return false
		}
	}
	return false
}

// answer takes the tokens of a generation and sorts their text into thinking
// and answer. Thinking begins with the opening marker, before any other text,
// and ends with the closing one; white space at its two ends and before the
// text that follows belongs to neither.
type answer struct {
	marks  markers
	raw    bool              // all is text
	stream *tokenizer.Stream // nil without a tokenizer: no text at all
	stop   stopper
	tools  *toolParser // nil: calls of tools are text

	text, thinking strings.Builder // all that was shown
	inside         bool            // between the markers
	began          bool            // something other than white space was said
	trim           bool            // drop white space at the beginning
	held           string          // white space at the end of the thinking so far
	thought        int             // tokens of thinking

	newText, newThinking strings.Builder // since the last take
}

// token takes the next token; it reports true when a stop string is complete.
func (a *answer) token(id int32) bool {
	if a.stream == nil {
		return false
	}
	switch {
	case a.raw:
	case id == a.marks.open && !a.inside && !a.began:
		a.put(a.stream.Flush())
		a.inside, a.trim = true, true
		return false
	case id == a.marks.close && a.inside:
		a.put(a.stream.Flush())
		a.inside, a.trim, a.held = false, true, ""
		return false
	}
	if a.inside {
		a.thought++
	}
	return a.put(a.stream.Push(id)) || a.tools.ended()
}

// finish shows what was held back. Text behind a stop string stays cut.
func (a *answer) finish() {
	if a.stream == nil {
		return
	}
	a.put(a.stream.Flush())
	a.show(a.stop.flush())
	if a.tools != nil {
		a.write(a.tools.flush())
	}
}

// put routes a piece of text.
func (a *answer) put(piece string) bool {
	if a.trim {
		piece = strings.TrimLeftFunc(piece, unicode.IsSpace)
		a.trim = piece == ""
	}
	if piece == "" {
		return false
	}
	if a.inside {
		piece = a.held + piece
		said := strings.TrimRightFunc(piece, unicode.IsSpace)
		a.held = piece[len(said):]
		a.thinking.WriteString(said)
		a.newThinking.WriteString(said)
		return false
	}
	a.began = a.began || strings.TrimSpace(piece) != ""
	show, found := a.stop.push(piece)
	a.show(show)
	return found
}

func (a *answer) show(text string) {
	if a.tools != nil {
		text = a.tools.push(text)
	}
	a.write(text)
}

func (a *answer) write(text string) {
	a.text.WriteString(text)
	a.newText.WriteString(text)
}

// isNew tells whether take has something to return.
func (a *answer) isNew() bool {
	return a.newText.Len()+a.newThinking.Len() > 0 || a.tools != nil && len(a.tools.fresh) > 0
}

// take moves what is new since the last take to d; it reports whether there is any.
func (a *answer) take(d *Delta) bool {
	d.Text, d.Thinking = a.newText.String(), a.newThinking.String()
	a.newText.Reset()
	a.newThinking.Reset()
	if a.tools != nil {
		d.ToolCalls, a.tools.fresh = a.tools.fresh, nil
	}
	return d.Text != "" || d.Thinking != "" || len(d.ToolCalls) > 0
}
