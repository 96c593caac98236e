// SPDX-License-Identifier: Apache-2.0

package jinja

import (
	"fmt"
	"math"
	"strconv"
)

// maxParseDepth bounds the nesting of expressions and statements.
const maxParseDepth = 100

// parser turns tokens into statements. Jinja's grammar, with its precedence.
type parser struct {
	toks  []lexeme
	at    int
	depth int
	loops int             // loops around the statement being read
	names map[string]bool // names the template reads
}

func (p *parser) peek() lexeme { return p.toks[p.at] }

func (p *parser) next() lexeme {
	t := p.toks[p.at]
	if t.kind != lexEOF {
		p.at++
	}
	return t
}

// isOp tells whether the next token is an operator of that spelling.
func (p *parser) isOp(op string) bool {
	t := p.peek()
	return t.kind == lexOp && t.text == op
}

func (p *parser) isName(name string) bool {
	t := p.peek()
	return t.kind == lexName && t.text == name
}

func (p *parser) skipOp(op string) bool {
	if p.isOp(op) {
		p.at++
		return true
	}
	return false
}

func (p *parser) skipName(name string) bool {
	if p.isName(name) {
		p.at++
		return true
	}
	return false
}

func (p *parser) expectOp(op string) error {
	if !p.skipOp(op) {
		return p.unexpected("expected " + strconv.Quote(op))
	}
	return nil
}

func (p *parser) fail(format string, args ...any) error {
	return &Error{Line: p.peek().line, Msg: fmt.Sprintf(format, args...)}
}

func (p *parser) unexpected(want string) error {
	t := p.peek()
	got := strconv.Quote(t.text)
	switch t.kind {
	case lexEOF:
		got = "the end of the template"
	case lexVarEnd, lexBlockEnd:
		got = "the end of the tag"
	}
	return p.fail("%s, not %s", want, got)
}

// enter guards recursion; leave undoes it.
func (p *parser) enter() error {
	if p.depth++; p.depth > maxParseDepth {
		return p.fail("nested more than %d deep", maxParseDepth)
	}
	return nil
}

func (p *parser) leave() { p.depth-- }

func (p *parser) expression() (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	e, err := p.or()
	for err == nil && p.isName("if") {
		line := p.next().line
		c := &condExpr{then: e, line: line}
		if c.cond, err = p.or(); err == nil && p.skipName("else") {
			c.other, err = p.expression()
		}
		e = c
	}
	return e, err
}

func (p *parser) or() (expr, error) {
	a, err := p.and()
	for err == nil && p.skipName("or") {
		var b expr
		b, err = p.and()
		a = &logicExpr{false, a, b}
	}
	return a, err
}

func (p *parser) and() (expr, error) {
	a, err := p.not()
	for err == nil && p.skipName("and") {
		var b expr
		b, err = p.not()
		a = &logicExpr{true, a, b}
	}
	return a, err
}

func (p *parser) not() (expr, error) {
	if !p.skipName("not") {
		return p.compare()
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	of, err := p.not()
	return &notExpr{of}, err
}

// comparison returns the comparing operator that comes next, "" for none.
func (p *parser) comparison() string {
	t := p.peek()
	switch {
	case t.kind == lexOp:
		switch t.text {
		case "==", "!=", "<", "<=", ">", ">=":
			p.at++
			return t.text
		}
	case p.skipName("in"):
		return "in"
	case p.isName("not") && p.toks[p.at+1].kind == lexName && p.toks[p.at+1].text == "in":
		p.at += 2
		return "not in"
	}
	return ""
}

func (p *parser) compare() (expr, error) {
	first, err := p.binary(0)
	if err != nil {
		return nil, err
	}
	c := &compareExpr{first: first, line: p.peek().line}
	for op := p.comparison(); op != ""; op = p.comparison() {
		b, err := p.binary(0)
		if err != nil {
			return nil, err
		}
		c.ops, c.rest = append(c.ops, op), append(c.rest, b)
	}
	if len(c.ops) == 0 {
		return first, nil
	}
	return c, nil
}

// binaryLevels are the arithmetic operators, weakest first. All of them,
// even the power, take their left side first.
var binaryLevels = [][]string{{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}}

func (p *parser) binary(level int) (expr, error) {
	if level == len(binaryLevels) {
		return p.unary(true)
	}
	a, err := p.binary(level + 1)
	for err == nil {
		op, line := p.peek(), p.peek().line
		found := false
		for _, o := range binaryLevels[level] {
			found = found || op.kind == lexOp && op.text == o
		}
		if !found {
			return a, nil
		}
		p.at++
		var b expr
		if b, err = p.binary(level + 1); err != nil {
			break
		}
		if c, ok := a.(*concatExpr); ok && op.text == "~" {
			c.parts = append(c.parts, b)
		} else if op.text == "~" {
			a = &concatExpr{[]expr{a, b}, line}
		} else {
			a = &binaryExpr{op.text, a, b, line}
		}
	}
	return nil, err
}

func (p *parser) unary(filters bool) (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	var e expr
	var err error
	if t := p.peek(); p.skipOp("-") || p.skipOp("+") {
		if e, err = p.unary(false); err == nil {
			e = &unaryExpr{t.text == "-", e, t.line}
		}
	} else {
		e, err = p.primary()
	}
	if err == nil {
		e, err = p.postfix(e)
	}
	if err == nil && filters {
		e, err = p.filters(e)
	}
	return e, err
}

func (p *parser) primary() (expr, error) {
	t := p.peek()
	switch t.kind {
	case lexName:
		p.at++
		switch t.text {
		case "true", "True":
			return &constExpr{true}, nil
		case "false", "False":
			return &constExpr{false}, nil
		case "none", "None":
			return &constExpr{nil}, nil
		}
		p.names[t.text] = true
		return &nameExpr{t.text, t.line}, nil
	case lexString:
		text := ""
		for p.peek().kind == lexString {
			text += p.next().text
		}
		return &constExpr{text}, nil
	case lexInt:
		p.at++
		n, err := p.parseInt(t.text)
		return &constExpr{n}, err
	case lexFloat:
		p.at++
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil && !math.IsInf(f, 0) {
			return nil, p.fail("number %.40q is out of range", t.text)
		}
		return &constExpr{f}, nil
	case lexOp:
		switch t.text {
		case "(":
			p.at++
			e, err := p.tuple(true, ")")
			if err == nil {
				err = p.expectOp(")")
			}
			return e, err
		case "[":
			p.at++
			items, err := p.list("]")
			return &seqExpr{seqList, items}, err
		case "{":
			p.at++
			return p.dict()
		}
	}
	return nil, p.unexpected("expected an expression")
}

// parseInt reads decimal digits.
func (p *parser) parseInt(s string) (value, error) {
	n, err := parseNumber(s)
	if err != nil {
		return nil, p.fail("number %.40q is out of range", s)
	}
	return n, nil
}

// list reads expressions up to the closing operator.
func (p *parser) list(end string) ([]expr, error) {
	var items []expr
	for !p.skipOp(end) {
		if len(items) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
			if p.skipOp(end) {
				break
			}
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		items = append(items, e)
	}
	return items, nil
}

func (p *parser) dict() (expr, error) {
	d := new(dictExpr)
	for !p.skipOp("}") {
		if len(d.keys) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
			if p.skipOp("}") {
				break
			}
		}
		k, err := p.expression()
		if err == nil {
			err = p.expectOp(":")
		}
		if err != nil {
			return nil, err
		}
		v, err := p.expression()
		if err != nil {
			return nil, err
		}
		d.keys, d.values = append(d.keys, k), append(d.values, v)
	}
	return d, nil
}

// tuple reads an expression, or several with commas between as a tuple.
// empty allows none at all, where end (an operator) comes next.
func (p *parser) tuple(empty bool, end string) (expr, error) {
	return p.tupleOf(p.expression, empty, end)
}

func (p *parser) tupleOf(item func() (expr, error), empty bool, end string) (expr, error) {
	var items []expr
	for {
		t := p.peek()
		done := t.kind == lexVarEnd || t.kind == lexBlockEnd || end != "" && p.isOp(end)
		if done && (len(items) > 0 || empty) {
			return &seqExpr{seqTuple, items}, nil
		}
		e, err := item()
		if err != nil {
			return nil, err
		}
		if !p.skipOp(",") {
			if len(items) == 0 {
				return e, nil
			}
			return &seqExpr{seqTuple, append(items, e)}, nil
		}
		items = append(items, e)
	}
}
