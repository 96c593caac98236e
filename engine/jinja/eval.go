// SPDX-License-Identifier: Apache-2.0

package jinja

import "unicode/utf8"

func (c *constExpr) eval(*renderer, *scope) (value, error) { return c.v, nil }

func (textExpr) eval(r *renderer, _ *scope) (value, error) { return r.text, nil }

func (n *nameExpr) eval(_ *renderer, s *scope) (value, error) {
	if v, ok := s.get(n.name); ok {
		return v, nil
	}
	if fn, ok := globals[n.name]; ok {
		return fn, nil
	}
	return &undefined{n.name}, nil
}

// evalAll evaluates some expressions into a new list.
func (r *renderer) evalAll(es []expr, s *scope) ([]value, error) {
	if err := r.growList(len(es)); err != nil {
		return nil, err
	}
	out := make([]value, len(es))
	for i, e := range es {
		v, err := r.eval(e, s)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func (q *seqExpr) eval(r *renderer, s *scope) (value, error) {
	items, err := r.evalAll(q.items, s)
	return &seq{kind: q.kind, items: items}, err
}

func (d *dictExpr) eval(r *renderer, s *scope) (value, error) {
	if err := r.growList(6 * len(d.keys)); err != nil {
		return nil, err
	}
	out := newDict(len(d.keys))
	for i := range d.keys {
		k, err := r.eval(d.keys[i], s)
		if err != nil {
			return nil, err
		}
		v, err := r.eval(d.values[i], s)
		if err != nil {
			return nil, err
		}
		if !out.put(k, v) {
			return nil, r.failf("a %s cannot be a key", typeName(k))
		}
	}
	return out, nil
}

func (a *attrExpr) eval(r *renderer, s *scope) (value, error) {
	of, err := r.eval(a.of, s)
	if err != nil {
		return nil, err
	}
	v, err := r.attr(of, a.name)
	return v, atLine(err, a.line)
}

// attr is Jinja's of.name: an attribute (a method), else an item.
func (r *renderer) attr(of value, name string) (value, error) {
	switch of := of.(type) {
	case *undefined:
		return nil, r.failf("%q is undefined, so that it has no %q", of.name, name)
	case *loop:
		if v, ok := of.attr(name); ok {
			return v, nil
		}
	case *namespace:
		if v, ok := of.d[name]; ok {
			return v, nil
		}
	default:
		if m, ok := method(of, name); ok {
			return m, nil
		}
		if d, ok := of.(*Dict); ok {
			if v, ok := d.get(name); ok {
				return v, nil
			}
		}
	}
	return &undefined{name}, nil
}

func (i *itemExpr) eval(r *renderer, s *scope) (value, error) {
	of, err := r.eval(i.of, s)
	if err != nil {
		return nil, err
	}
	key, err := r.eval(i.key, s)
	if err != nil {
		return nil, err
	}
	v, err := r.item(of, key)
	return v, atLine(err, i.line)
}

// item is Jinja's of[key]: an item, else an attribute.
func (r *renderer) item(of, key value) (value, error) {
	if b, ok := key.(bool); ok {
		key = asInt(b)
	}
	switch of := of.(type) {
	case *undefined:
		return nil, r.failf("%q is undefined, so that it has no items", of.name)
	case *Dict:
		if err := r.touch(key); err != nil {
			return nil, err
		}
		if v, ok := of.get(key); ok {
			return v, nil
		}
	case *seq:
		if i, ok := key.(int64); ok && of.kind != seqView && of.kind != seqOnce {
			if i < 0 {
				i += int64(len(of.items))
			}
			if i >= 0 && i < int64(len(of.items)) {
				return of.items[i], nil
			}
			return &undefined{"index out of range"}, nil
		}
	case string:
		if i, ok := key.(int64); ok {
			if err := r.touch(of); err != nil {
				return nil, err
			}
			if i < 0 {
				i += int64(utf8.RuneCountInString(of))
			}
			for n, c := range of {
				if i == 0 {
					return of[n : n+utf8.RuneLen(c)], nil
				}
				i--
			}
			return &undefined{"index out of range"}, nil
		}
	}
	if name, ok := key.(string); ok {
		if d, isDict := of.(*Dict); isDict {
			if m, ok := method(d, name); ok {
				return m, nil
			}
			return &undefined{name}, nil
		}
		return r.attr(of, name)
	}
	return &undefined{"item"}, nil
}

func (x *sliceExpr) eval(r *renderer, s *scope) (value, error) {
	of, err := r.eval(x.of, s)
	if err != nil {
		return nil, err
	}
	var at [3]*int64
	for i, e := range []expr{x.from, x.to, x.step} {
		if e == nil {
			continue
		}
		v, err := r.eval(e, s)
		if err != nil {
			return nil, err
		}
		n, ok := intOf(v)
		switch {
		case v == nil:
		case !ok:
			return nil, atLine(r.failf("a slice by %s", typeName(v)), x.line)
		default:
			at[i] = &n
		}
	}
	v, err := r.slice(of, at[0], at[1], at[2])
	return v, atLine(err, x.line)
}

func (r *renderer) slice(of value, from, to, step *int64) (value, error) {
	if err := r.touch(of); err != nil {
		return nil, err
	}
	by := int64(1)
	if step != nil {
		by = *step
	}
	if by == 0 {
		return nil, r.failf("slice step is zero")
	}
	switch of := of.(type) {
	case *undefined:
		return nil, r.failf("%q is undefined, so that it has no items", of.name)
	case string:
		if err := r.grow(5 * len(of)); err != nil {
			return nil, err
		}
		in := []rune(of)
		var out []rune
		for i, n := span3(int64(len(in)), from, to, by); n > 0; i, n = i+by, n-1 {
			out = append(out, in[i])
		}
		return string(out), nil
	case *seq:
		if of.kind == seqView || of.kind == seqOnce {
			break
		}
		i, n := span3(int64(len(of.items)), from, to, by)
		if err := r.growList(int(n)); err != nil {
			return nil, err
		}
		if err := r.spend(int(n) / 4); err != nil {
			return nil, err
		}
		out := &seq{kind: of.kind, items: make([]value, 0, n)}
		for ; n > 0; i, n = i+by, n-1 {
			out.items = append(out.items, of.items[i])
		}
		return out, nil
	}
	return nil, r.failf("%s is not sliced", describe(of))
}

// span3 returns where a Python slice of a sequence of length size begins and
// how many elements it has.
func span3(size int64, from, to *int64, step int64) (start, n int64) {
	low, high := int64(0), size
	if step < 0 {
		low, high = -1, size-1
	}
	clamp := func(p *int64, def int64) int64 {
		if p == nil {
			return def
		}
		v := *p
		if v < 0 {
			v = max(v, -size-1) + size
		}
		return min(max(v, low), high)
	}
	var end int64
	if step > 0 {
		start, end = clamp(from, low), clamp(to, high)
		if end <= start {
			return 0, 0
		}
		return start, (end-start-1)/step + 1
	}
	start, end = clamp(from, high), clamp(to, low)
	if end >= start {
		return 0, 0
	}
	return start, (start-end-1)/max(1, -max(step, -size-1)) + 1
}

func (c *callExpr) eval(r *renderer, s *scope) (value, error) {
	fn, err := r.eval(c.fn, s)
	if err != nil {
		return nil, err
	}
	f, ok := fn.(*function)
	if !ok {
		what := "a " + typeName(fn)
		if u, ok := fn.(*undefined); ok {
			what = "undefined " + u.name
		}
		return nil, atLine(r.failf("%s is called", what), c.line)
	}
	a, err := r.args(&c.args, s)
	if err != nil {
		return nil, err
	}
	v, err := f.call(r, a)
	return v, atLine(err, c.line)
}

// args evaluates the arguments of a call.
func (r *renderer) args(c *callArgs, s *scope) (args, error) {
	pos, err := r.evalAll(c.pos, s)
	if err != nil {
		return args{}, err
	}
	named, err := r.evalAll(c.named, s)
	if err != nil {
		return args{}, err
	}
	if err := r.touch(pos...); err != nil {
		return args{}, err
	}
	return args{pos, c.names, named}, r.touch(named...)
}

func (f *filterExpr) eval(r *renderer, s *scope) (value, error) {
	of, err := r.eval(f.of, s)
	if err != nil {
		return nil, err
	}
	a, err := r.args(&f.args, s)
	if err == nil {
		err = r.touch(of)
	}
	if err != nil {
		return nil, err
	}
	v, err := f.fn(r, of, a)
	return v, atLine(err, f.line)
}

func (t *testExpr) eval(r *renderer, s *scope) (value, error) {
	of, err := r.eval(t.of, s)
	if err != nil {
		return nil, err
	}
	a, err := r.evalAll(t.args, s)
	if err == nil {
		err = r.touch(of)
	}
	if err != nil {
		return nil, err
	}
	ok, err := t.fn(r, of, a)
	return ok != t.negate, atLine(err, t.line)
}

func (c *condExpr) eval(r *renderer, s *scope) (value, error) {
	v, err := r.eval(c.cond, s)
	switch {
	case err != nil:
		return nil, err
	case truth(v):
		return r.eval(c.then, s)
	case c.other != nil:
		return r.eval(c.other, s)
	}
	return &undefined{"the if without an else"}, nil
}

func (l *logicExpr) eval(r *renderer, s *scope) (value, error) {
	v, err := r.eval(l.a, s)
	if err != nil || truth(v) != l.and {
		return v, err
	}
	return r.eval(l.b, s)
}

func (n *notExpr) eval(r *renderer, s *scope) (value, error) {
	v, err := r.eval(n.of, s)
	return !truth(v), err
}
