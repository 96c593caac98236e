// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"windhover/engine/grammar"
)

// Markers around a call of a tool, as models of Qwen's and Hermes' kind write it:
// a JSON object with name and arguments between them.
const (
	callOpen  = "<tool_call>"
	callClose = "</tool_call>"
	callLead  = "\n" // behind the one, and before the other
	callTail  = "\n" + callClose
)

const (
	maxTools     = 128
	maxToolName  = 64
	maxCalls     = 32       // of an answer
	maxCallBytes = 32 << 10 // of one, between its markers
	blanks       = " \t\r\n"
)

// declared is a tool as a request tells of it.
type declared struct {
	grammar.Tool
	strict bool // its arguments are held to its parameters also where it need not be called
}

// readTools reads declarations: {"type":"function","function":{…}}, or what function
// holds alone.
func readTools(raw []json.RawMessage) ([]declared, error) {
	if len(raw) > maxTools {
		return nil, badRequest("%d tools, at most %d", len(raw), maxTools)
	}
	type function struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
		Strict     bool            `json:"strict"`
	}
	var tools []declared
	for i, r := range raw {
		var t struct {
			function
			Function *function `json:"function"`
		}
		if err := json.Unmarshal(r, &t); err != nil {
			return nil, badRequest("tools[%d]: %v", i, err)
		}
		f := t.function
		if t.Function != nil {
			f = *t.Function
		}
		if f.Name == "" || len(f.Name) > maxToolName {
			return nil, badRequest("tools[%d]: name %.80q: 1 to %d bytes", i, f.Name, maxToolName)
		}
		if string(f.Parameters) == "null" {
			f.Parameters = nil
		}
		tools = append(tools, declared{grammar.Tool{Name: f.Name, Parameters: f.Parameters}, t.Strict || f.Strict})
	}
	return tools, nil
}

// toolParser takes calls of tools out of text that arrives in pieces. What begins
// like a call and is none (no JSON, another tool, too long, too many) stays text.
// White space around calls is dropped.
type toolParser struct {
	names []string // of the tools that may be called
	once  bool     // the first call is the end
	rigid bool     // calls are held to a grammar, which goes on where one is too long
	lost  bool     // one was: all that follows is text

	held    string // not yet shown: white space, or the beginning of a marker
	after   bool   // behind a call: no text yet
	inside  bool   // between the markers
	space   string // before the opening one
	body    []byte
	seen    int // bytes of body that were looked at
	quoted  bool
	escaped bool

	calls []ToolCall
	fresh []ToolCall // that nobody took yet
	bad   bool
}

// push takes the next piece and returns the text that is no part of a call.
func (p *toolParser) push(piece string) string {
	text := p.held + piece
	p.held = ""
	var show strings.Builder
	for text != "" {
		if p.lost {
			show.WriteString(text)
			break
		}
		if p.inside {
			text = p.call(text, &show)
			continue
		}
		if p.after {
			if text = strings.TrimLeft(text, blanks); text == "" {
				break
			}
		}
		before, rest, found := strings.Cut(text, callOpen)
		if found {
			said := strings.TrimRight(before, blanks)
			show.WriteString(said)
			p.inside, p.after, p.space, text = true, false, before[len(said):], rest
			p.body, p.seen, p.quoted, p.escaped = p.body[:0], 0, false, false
			continue
		}
		said := strings.TrimRight(text[:len(text)-overlap(text, callOpen)], blanks)
		show.WriteString(said)
		p.held = text[len(said):]
		p.after = p.after && said == ""
		break
	}
	return show.String()
}

// call takes more of a call and returns what is behind it, once it is over. Within
// strings of JSON the closing marker is text; a string ends at a line end at the
// latest, as JSON has none there.
func (p *toolParser) call(text string, show *strings.Builder) (rest string) {
	p.body = append(p.body, text...)
	for ; p.seen < len(p.body); p.seen++ {
		c := p.body[p.seen]
		switch {
		case p.seen >= maxCallBytes:
			rest = string(p.body[p.seen:])
			p.give(show, "")
			p.lost = p.rigid
			return rest
		case p.escaped:
			p.escaped = false
		case p.quoted && c == '\\':
			p.escaped = true
		case c == '"', c == '\n':
			p.quoted = c == '"' && !p.quoted
		case c == '<' && !p.quoted:
			tail := p.body[p.seen:]
			if bytes.HasPrefix(tail, []byte(callClose)) {
				return p.end(show, string(tail[len(callClose):]))
			}
			if len(tail) < len(callClose) && strings.HasPrefix(callClose, string(tail)) {
				return "" // wait for the rest of it
			}
		}
	}
	return ""
}

// end looks at a whole call.
func (p *toolParser) end(show *strings.Builder, rest string) string {
	var c struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	args := []byte("{}")
	ok := len(p.calls) < maxCalls && json.Unmarshal(p.body[:p.seen], &c) == nil && slices.Contains(p.names, c.Name)
	if len(c.Arguments) > 0 && string(c.Arguments) != "null" {
		var b bytes.Buffer
		ok = ok && c.Arguments[0] == '{' && json.Compact(&b, c.Arguments) == nil
		args = b.Bytes()
	}
	if !ok {
		p.give(show, callClose)
		return rest
	}
	call := ToolCall{Name: c.Name, Arguments: string(args)}
	p.calls, p.fresh = append(p.calls, call), append(p.fresh, call)
	p.inside, p.after = false, true
	return rest
}

// give gives up a call: what was looked at is text.
func (p *toolParser) give(show *strings.Builder, end string) {
	p.inside, p.bad = false, true
	show.WriteString(p.space)
	show.WriteString(callOpen)
	show.Write(p.body[:p.seen])
	show.WriteString(end)
}

// ended tells whether the answer is over with what was taken.
func (p *toolParser) ended() bool { return p != nil && p.once && len(p.calls) > 0 }

// flush returns what was held back when no more text comes.
func (p *toolParser) flush() string {
	var show strings.Builder
	if p.inside {
		p.seen = len(p.body)
		p.give(&show, "")
	}
	show.WriteString(p.held)
	p.held = ""
	return show.String()
}
