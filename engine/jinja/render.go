// SPDX-License-Identifier: Apache-2.0

package jinja

import (
	"fmt"
	"strings"
	"time"
)

const (
	// maxMade is the longest text or list that one operation makes, in bytes
	// or elements.
	maxMade  = 64 << 20
	maxDepth = 1000
	// maxNesting is the deepest nesting of values that printing or comparing
	// walks into.
	maxNesting = 100
	// scanBytes is how much text may be looked at for one step.
	scanBytes = 32
)

// renderer is one rendering of a template.
type renderer struct {
	out   *strings.Builder
	steps int // left
	bytes int // left
	depth int
	text  string // the captured text that filters apply to: textExpr
	now   func() time.Time
}

// scope holds the variables of a body; names it lacks are its parent's.
// They are few: a loop's body has a scope for each turn.
type scope struct {
	vars   []variable
	parent *scope
}

type variable struct {
	name string
	v    value
}

func (s *scope) inner() *scope { return &scope{parent: s} }

// own returns a variable of this very scope, nil for none.
func (s *scope) own(name string) *variable {
	for i := range s.vars {
		if s.vars[i].name == name {
			return &s.vars[i]
		}
	}
	return nil
}

func (s *scope) get(name string) (value, bool) {
	for ; s != nil; s = s.parent {
		if v := s.own(name); v != nil {
			return v.v, true
		}
	}
	return nil, false
}

func (s *scope) set(name string, v value) {
	if own := s.own(name); own != nil {
		own.v = v
		return
	}
	s.vars = append(s.vars, variable{name, v})
}

// failf makes an error whose line the node that is evaluated fills in.
func (r *renderer) failf(format string, args ...any) error {
	return &Error{Msg: fmt.Sprintf(format, args...)}
}

// atLine sets the line of an error that has none yet.
func atLine(err error, line int) error {
	if e, ok := err.(*Error); ok && e.Line == 0 {
		e.Line = line
	}
	return err
}

func (r *renderer) limit(what string) error {
	return &Error{Msg: what + ": this is more than rendering a chat can need"}
}

// spend takes n steps.
func (r *renderer) spend(n int) error {
	if r.steps -= n; r.steps < 0 {
		return r.limit("too many steps")
	}
	return nil
}

// grow accounts for n bytes about to be made.
func (r *renderer) grow(n int) error {
	if n < 0 || n > r.bytes {
		r.bytes = 0
		return r.limit("too much text")
	}
	r.bytes -= n
	return nil
}

// growList accounts for n elements about to be made.
func (r *renderer) growList(n int) error {
	if n < 0 || n > maxMade {
		return r.limit("a list is too long")
	}
	return r.grow(16 * n)
}

// touch accounts for looking through the texts among values. Lists account
// for themselves where they are walked: their length costs nothing.
func (r *renderer) touch(values ...value) error {
	n := 0
	for _, v := range values {
		if text, ok := v.(string); ok {
			n += len(text) / scanBytes
		}
	}
	return r.spend(n)
}

func (r *renderer) write(s string) error {
	if err := r.grow(len(s)); err != nil {
		return err
	}
	r.out.WriteString(s)
	return nil
}

// capture runs a body and returns its output.
func (r *renderer) capture(body []stmt, s *scope) (string, error) {
	outer := r.out
	r.out = new(strings.Builder)
	err := r.exec(body, s)
	text := r.out.String()
	r.out = outer
	return text, err
}

// down guards recursion; up undoes it.
func (r *renderer) down() error {
	if r.depth++; r.depth > maxDepth {
		return r.limit(fmt.Sprintf("nested more than %d deep", maxDepth))
	}
	return r.spend(1)
}

func (r *renderer) up() { r.depth-- }

// eval evaluates an expression. All evaluation goes through it.
func (r *renderer) eval(e expr, s *scope) (value, error) {
	if err := r.down(); err != nil {
		return nil, err
	}
	v, err := e.eval(r, s)
	r.up()
	return v, err
}

// exec runs statements. All execution goes through it.
func (r *renderer) exec(body []stmt, s *scope) error {
	if err := r.down(); err != nil {
		return err
	}
	defer r.up()
	for _, st := range body {
		if err := r.spend(1); err != nil {
			return err
		}
		if err := st.exec(r, s); err != nil {
			return err
		}
	}
	return nil
}
