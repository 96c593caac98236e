// SPDX-License-Identifier: Apache-2.0

package jinja

// What follows an expression: attributes, items, slices, calls, filters,
// tests.

func (p *parser) postfix(e expr) (expr, error) {
	for {
		t := p.peek()
		var err error
		switch {
		case p.skipOp("."):
			e, err = p.attribute(e, t.line)
		case p.skipOp("["):
			e, err = p.subscript(e, t.line)
		case p.isOp("("):
			e, err = p.call(e)
		default:
			return e, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *parser) attribute(of expr, line int) (expr, error) {
	t := p.peek()
	switch t.kind {
	case lexName:
		p.at++
		return &attrExpr{of, t.text, line}, nil
	case lexInt:
		p.at++
		n, err := p.parseInt(t.text)
		return &itemExpr{of, &constExpr{n}, line}, err
	}
	return nil, p.unexpected("expected a name after the dot")
}

func (p *parser) subscript(of expr, line int) (expr, error) {
	part := func() (expr, error) {
		if p.isOp(":") || p.isOp("]") {
			return nil, nil
		}
		return p.expression()
	}
	first, err := part()
	if err != nil {
		return nil, err
	}
	if !p.isOp(":") {
		if first == nil {
			return nil, p.unexpected("expected an index")
		}
		if p.isOp(",") {
			return nil, p.fail("more than one index is not supported")
		}
		return &itemExpr{of, first, line}, p.expectOp("]")
	}
	s := &sliceExpr{of: of, from: first, line: line}
	p.at++
	if s.to, err = part(); err != nil {
		return nil, err
	}
	if p.skipOp(":") {
		if s.step, err = part(); err != nil {
			return nil, err
		}
	}
	return s, p.expectOp("]")
}

func (p *parser) call(fn expr) (expr, error) {
	line := p.peek().line
	args, err := p.arguments()
	return &callExpr{fn, args, line}, err
}

// arguments reads (a, b, name=c).
func (p *parser) arguments() (callArgs, error) {
	var a callArgs
	if err := p.expectOp("("); err != nil {
		return a, err
	}
	for first := true; !p.skipOp(")"); first = false {
		if !first {
			if err := p.expectOp(","); err != nil {
				return a, err
			}
			if p.skipOp(")") {
				break
			}
		}
		if p.isOp("*") || p.isOp("**") {
			return a, p.fail("* and ** in a call are not supported")
		}
		name := ""
		if t := p.peek(); t.kind == lexName && p.toks[p.at+1].kind == lexOp && p.toks[p.at+1].text == "=" {
			name = t.text
			p.at += 2
		}
		e, err := p.expression()
		if err != nil {
			return a, err
		}
		switch {
		case name != "":
			a.names, a.named = append(a.names, name), append(a.named, e)
		case len(a.names) > 0:
			return a, p.fail("a positional argument follows a keyword")
		default:
			a.pos = append(a.pos, e)
		}
	}
	return a, nil
}

func (p *parser) filters(e expr) (expr, error) {
	for {
		var err error
		switch {
		case p.skipOp("|"):
			e, err = p.filter(e)
		case p.isName("is"):
			e, err = p.test(e)
		case p.isOp("("):
			e, err = p.call(e)
		default:
			return e, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// filter reads one filter, after its bar.
func (p *parser) filter(of expr) (expr, error) {
	t := p.peek()
	if t.kind != lexName {
		return nil, p.unexpected("expected the name of a filter")
	}
	fn, ok := findFilter(t.text)
	if !ok {
		return nil, p.fail("filter %q is not supported", t.text)
	}
	p.at++
	f := &filterExpr{of: of, name: t.text, fn: fn, line: t.line}
	if p.isOp("(") {
		var err error
		if f.args, err = p.arguments(); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (p *parser) test(of expr) (expr, error) {
	p.at++ // is
	t := &testExpr{of: of, negate: p.skipName("not")}
	name := p.peek()
	t.name, t.line = name.text, name.line
	if name.kind != lexName {
		return nil, p.unexpected("expected the name of a test")
	}
	var ok bool
	if t.fn, ok = tests[name.text]; !ok {
		return nil, p.fail("test %q is not supported", name.text)
	}
	p.at++
	arg := p.peek()
	var err error
	switch {
	case p.isName("is"):
		return nil, p.fail("two tests in a row")
	case p.isOp("("):
		var args callArgs
		if args, err = p.arguments(); err == nil && len(args.names) > 0 {
			err = p.fail("test %q takes no keywords", name.text)
		}
		t.args = args.pos
	case arg.kind == lexName && arg.text != "else" && arg.text != "or" && arg.text != "and" && arg.text != "if",
		arg.kind == lexString, arg.kind == lexInt, arg.kind == lexFloat, p.isOp("["), p.isOp("{"):
		var e expr
		if e, err = p.primary(); err == nil {
			e, err = p.postfix(e)
		}
		t.args = []expr{e}
	}
	return t, err
}
