// SPDX-License-Identifier: Apache-2.0

package jinja

import (
	"fmt"
	"strings"
	"time"
)

// maxSource is ten times the largest chat template in use, in bytes.
const maxSource = 256 << 10

// Template is a parsed template. It is safe for concurrent use.
type Template struct {
	body  []stmt
	names map[string]bool
}

// Parse reads a template of at most 256 KiB. Bytes that are not UTF-8 count
// as U+FFFD. Tags, filters and tests that are not there are refused here, by
// name. Errors are of type *Error.
func Parse(src string) (*Template, error) {
	if len(src) > maxSource {
		return nil, &Error{Msg: fmt.Sprintf("%d bytes is over the limit of %d", len(src), maxSource)}
	}
	toks, err := lex(strings.ToValidUTF8(src, "\uFFFD"))
	if err != nil {
		return nil, err
	}
	p := &parser{toks: toks, names: make(map[string]bool)}
	body, _, err := p.body()
	if err != nil {
		return nil, err
	}
	return &Template{body: body, names: p.names}, nil
}

// Uses tells whether the template reads a variable of that name.
func (t *Template) Uses(name string) bool { return t.names[name] }

// Limits are what one rendering may spend.
type Limits struct {
	Steps int // evaluations, elements walked, and 32 bytes of text looked through each
	Bytes int // of text and lists made, added up
}

// LimitsFor returns limits that no genuine template comes near, where its
// variables hold input bytes of text: the largest chat templates in use spend
// some 300 steps a message, and copy each a few times.
func LimitsFor(input int) Limits {
	return Limits{Steps: 2_000_000 + input, Bytes: 64<<20 + 32*input}
}

// Render returns the template's text. vars are the variables; other names are
// undefined. now is the clock of strftime_now; nil is time.Now. Errors are of
// type *Error: a use of what is undefined, the template's own refusal
// (Raised), or a limit that is reached.
func (t *Template) Render(vars *Dict, limits Limits, now func() time.Time) (string, error) {
	if now == nil {
		now = time.Now
	}
	s := new(scope)
	for i, name := range vars.keys {
		s.vars = append(s.vars, variable{name.(string), vars.values[i]})
	}
	r := &renderer{out: new(strings.Builder), steps: limits.Steps, bytes: limits.Bytes, now: now}
	if err := r.exec(t.body, s.inner()); err != nil {
		return "", err
	}
	return r.out.String(), nil
}

// Error says what is wrong with a template, or what went wrong while
// rendering it.
type Error struct {
	Line   int    // of the template, from 1; 0 where unknown
	Msg    string // what
	Raised bool   // the template itself refused its variables, by raise_exception
}

func (e *Error) Error() string {
	msg := e.Msg
	if e.Raised {
		msg = "raised by the template: " + msg
	}
	if e.Line == 0 {
		return "jinja: " + msg
	}
	return fmt.Sprintf("jinja: line %d: %s", e.Line, msg)
}
