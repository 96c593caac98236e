// SPDX-License-Identifier: Apache-2.0

package jinja

import "slices"

// body reads statements up to a block tag of one of the names, whose
// {% and name it consumes. No names: up to the end of the template.
func (p *parser) body(ends ...string) (out []stmt, end string, err error) {
	if err := p.enter(); err != nil {
		return nil, "", err
	}
	defer p.leave()
	for {
		t := p.next()
		switch t.kind {
		case lexEOF:
			if len(ends) > 0 {
				return nil, "", p.fail("%q is missing", ends[len(ends)-1])
			}
			return out, "", nil
		case lexData:
			out = append(out, &dataStmt{t.text})
		case lexVarBegin:
			e, err := p.tuple(false, "")
			if err != nil {
				return nil, "", err
			}
			if p.peek().kind != lexVarEnd {
				return nil, "", p.unexpected("expected the end of the tag")
			}
			p.at++
			out = append(out, &outputStmt{e, t.line})
		case lexBlockBegin:
			tag := p.peek()
			if tag.kind != lexName {
				return nil, "", p.unexpected("expected the name of a tag")
			}
			if slices.Contains(ends, tag.text) {
				p.at++
				return out, tag.text, nil
			}
			s, err := p.statement()
			if err != nil {
				return nil, "", err
			}
			out = append(out, s)
		}
	}
}

// blockEnd consumes the end of a block tag.
func (p *parser) blockEnd() error {
	if p.peek().kind != lexBlockEnd {
		return p.unexpected("expected the end of the tag")
	}
	p.at++
	return nil
}

// section reads the end of a tag, a body and the tag that ends it.
func (p *parser) section(end string) ([]stmt, error) {
	if err := p.blockEnd(); err != nil {
		return nil, err
	}
	body, _, err := p.body(end)
	if err != nil {
		return nil, err
	}
	return body, p.blockEnd()
}

// statement reads one block tag from its name on, with its body.
func (p *parser) statement() (stmt, error) {
	t := p.next()
	switch t.text {
	case "if":
		return p.ifStatement()
	case "for":
		return p.forStatement(t.line)
	case "set":
		return p.setStatement(t.line)
	case "macro":
		return p.macroStatement()
	case "with":
		return p.withStatement(t.line)
	case "filter":
		return p.filterStatement(t.line)
	case "generation": // marks what a model is trained on; no output of its own
		body, err := p.section("endgeneration")
		return &groupStmt{body}, err
	case "break", "continue":
		if p.loops == 0 {
			return nil, p.fail("%q outside of a loop", t.text)
		}
		f := flowBreak
		if t.text == "continue" {
			f = flowContinue
		}
		return &escapeStmt{f}, p.blockEnd()
	}
	p.at--
	return nil, p.fail("tag %q is not supported", t.text)
}

func (p *parser) ifStatement() (stmt, error) {
	s := new(ifStmt)
	for {
		cond, err := p.tuple(false, "")
		if err == nil {
			err = p.blockEnd()
		}
		if err != nil {
			return nil, err
		}
		body, end, err := p.body("elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		s.conds, s.bodies = append(s.conds, cond), append(s.bodies, body)
		switch end {
		case "else":
			s.other, err = p.section("endif")
			return s, err
		case "endif":
			return s, p.blockEnd()
		}
	}
}

func (p *parser) forStatement(line int) (stmt, error) {
	s := &forStmt{line: line}
	var err error
	if s.target, err = p.target("in", false); err != nil {
		return nil, err
	}
	if !p.skipName("in") {
		return nil, p.unexpected(`expected "in"`)
	}
	// No inline "if" here: it filters.
	if s.in, err = p.tupleOf(p.or, false, ""); err != nil {
		return nil, err
	}
	if p.skipName("if") {
		if s.test, err = p.expression(); err != nil {
			return nil, err
		}
	}
	if p.isName("recursive") {
		return nil, p.fail("recursive loops are not supported")
	}
	if err := p.blockEnd(); err != nil {
		return nil, err
	}
	p.loops++
	body, end, err := p.body("else", "endfor")
	p.loops--
	if err != nil {
		return nil, err
	}
	s.body = body
	if end == "else" {
		s.other, err = p.section("endfor")
		return s, err
	}
	return s, p.blockEnd()
}

// target reads what is assigned to: names with commas between, in
// parentheses or not, up to the name stop or an "=".
func (p *parser) target(stop string, attrs bool) (target, error) {
	if err := p.enter(); err != nil {
		return target{}, err
	}
	defer p.leave()
	var items []target
	tuple := false
	for {
		t := p.peek()
		if len(items) > 0 && (t.kind != lexName && !p.isOp("(") || stop != "" && p.isName(stop)) {
			break
		}
		if p.skipOp("(") {
			inner, err := p.target("", false)
			if err == nil {
				err = p.expectOp(")")
			}
			if err != nil {
				return target{}, err
			}
			items = append(items, inner)
		} else {
			if t.kind != lexName {
				return target{}, p.unexpected("expected a name to assign to")
			}
			switch t.text {
			case "true", "false", "none", "True", "False", "None":
				return target{}, p.fail("%q is not assigned to", t.text)
			}
			p.at++
			item := target{name: t.text}
			if attrs && p.skipOp(".") {
				a := p.next()
				if a.kind != lexName {
					return target{}, p.fail("expected a name after the dot")
				}
				item.attr = a.text
				p.names[t.text] = true
			}
			items = append(items, item)
		}
		if !p.skipOp(",") {
			break
		}
		tuple = true
	}
	if !tuple {
		return items[0], nil
	}
	return target{items: items}, nil
}

func (p *parser) setStatement(line int) (stmt, error) {
	to, err := p.target("", true)
	if err != nil {
		return nil, err
	}
	if p.skipOp("=") {
		of, err := p.tuple(false, "")
		if err == nil {
			err = p.blockEnd()
		}
		return &setStmt{to, of, line}, err
	}
	return p.capture(&to, "endset", line)
}

func (p *parser) filterStatement(line int) (stmt, error) {
	return p.capture(nil, "endfilter", line)
}

// capture reads filters and the body they apply to. Without a target there
// is no bar before the first filter.
func (p *parser) capture(to *target, end string, line int) (stmt, error) {
	// The filters are read around a place that the body's text takes.
	var through expr = textExpr{}
	var err error
	if to == nil {
		through, err = p.filter(through)
	}
	if err == nil {
		through, err = p.filters(through)
	}
	if err != nil {
		return nil, err
	}
	loops := p.loops
	p.loops = 0 // a loop is not left through a capture
	body, err := p.section(end)
	p.loops = loops
	return &captureStmt{to, body, through, line}, err
}

func (p *parser) macroStatement() (stmt, error) {
	t := p.next()
	if t.kind != lexName {
		return nil, p.fail("expected the name of a macro")
	}
	m := &macroStmt{name: t.text}
	if err := p.expectOp("("); err != nil {
		return nil, err
	}
	for first := true; !p.skipOp(")"); first = false {
		if !first {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
			if p.skipOp(")") {
				break
			}
		}
		a := p.next()
		if a.kind != lexName {
			return nil, p.fail("expected the name of a parameter")
		}
		arg := param{name: a.text}
		if p.skipOp("=") {
			var err error
			if arg.def, err = p.expression(); err != nil {
				return nil, err
			}
		} else if n := len(m.params); n > 0 && m.params[n-1].def != nil {
			return nil, p.fail("parameter %q needs a default", a.text)
		}
		m.params = append(m.params, arg)
	}
	loops := p.loops
	p.loops = 0
	var err error
	m.body, err = p.section("endmacro")
	p.loops = loops
	return m, err
}

func (p *parser) withStatement(line int) (stmt, error) {
	w := &withStmt{line: line}
	for p.peek().kind != lexBlockEnd {
		if len(w.names) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		t := p.next()
		if t.kind != lexName {
			return nil, p.fail("expected a name")
		}
		if err := p.expectOp("="); err != nil {
			return nil, err
		}
		v, err := p.expression()
		if err != nil {
			return nil, err
		}
		w.names, w.values = append(w.names, target{name: t.text}), append(w.values, v)
	}
	var err error
	w.body, err = p.section("endwith")
	return w, err
}
