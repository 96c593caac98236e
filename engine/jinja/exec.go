// SPDX-License-Identifier: Apache-2.0

package jinja

func (d *dataStmt) exec(r *renderer, _ *scope) error { return r.write(d.text) }

func (o *outputStmt) exec(r *renderer, s *scope) error {
	v, err := r.eval(o.of, s)
	if err != nil {
		return atLine(err, o.line)
	}
	text, err := r.str(v)
	if err != nil {
		return atLine(err, o.line)
	}
	return atLine(r.write(text), o.line)
}

func (i *ifStmt) exec(r *renderer, s *scope) error {
	for n, cond := range i.conds {
		v, err := r.eval(cond, s)
		if err != nil {
			return err
		}
		if truth(v) {
			return r.exec(i.bodies[n], s)
		}
	}
	return r.exec(i.other, s)
}

func (f *forStmt) exec(r *renderer, s *scope) error {
	in, err := r.eval(f.in, s)
	if err != nil {
		return atLine(err, f.line)
	}
	items, err := r.iterate(in)
	if err != nil {
		return atLine(err, f.line)
	}
	if f.test != nil {
		if items, err = f.filter(r, s, items); err != nil {
			return atLine(err, f.line)
		}
	}
	if len(items) == 0 {
		return r.exec(f.other, s.inner())
	}
	l := &loop{items: items}
	for i, item := range items {
		l.at = i
		// Each turn has a scope of its own: what a body sets is gone after it.
		body := &scope{parent: s, vars: make([]variable, 1, 4)}
		body.vars[0] = variable{"loop", l}
		if err := f.target.assign(r, body, item); err != nil {
			return atLine(err, f.line)
		}
		err := r.exec(f.body, body)
		if err == flowContinue {
			continue
		}
		if err == flowBreak {
			break
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// filter keeps the items for which the loop's test holds.
func (f *forStmt) filter(r *renderer, s *scope, items []value) ([]value, error) {
	var kept []value
	for _, item := range items {
		inner := s.inner()
		if err := f.target.assign(r, inner, item); err != nil {
			return nil, err
		}
		v, err := r.eval(f.test, inner)
		if err != nil {
			return nil, err
		}
		if truth(v) {
			if err := r.growList(1); err != nil {
				return nil, err
			}
			kept = append(kept, item)
		}
	}
	return kept, nil
}

// assign sets the target's names.
func (t *target) assign(r *renderer, s *scope, v value) error {
	switch {
	case t.attr != "":
		of, _ := s.get(t.name)
		ns, ok := of.(*namespace)
		if !ok {
			return r.failf("%s.%s is set, but only a namespace's attributes can be", t.name, t.attr)
		}
		ns.d[t.attr] = v
	case t.items != nil:
		items, err := r.iterate(v)
		if err != nil {
			return err
		}
		if len(items) != len(t.items) {
			return r.failf("%d values are set to %d names", len(items), len(t.items))
		}
		for i := range t.items {
			if err := t.items[i].assign(r, s, items[i]); err != nil {
				return err
			}
		}
	default:
		s.set(t.name, v)
	}
	return nil
}

func (st *setStmt) exec(r *renderer, s *scope) error {
	v, err := r.eval(st.of, s)
	if err == nil {
		err = st.target.assign(r, s, v)
	}
	return atLine(err, st.line)
}

func (c *captureStmt) exec(r *renderer, s *scope) error {
	text, err := r.capture(c.body, s.inner())
	if err != nil {
		return err
	}
	outer := r.text
	r.text = text
	v, err := r.eval(c.through, s)
	r.text = outer
	if err != nil {
		return atLine(err, c.line)
	}
	if c.target != nil {
		return atLine(c.target.assign(r, s, v), c.line)
	}
	if text, err = r.str(v); err == nil {
		err = r.write(text)
	}
	return atLine(err, c.line)
}

func (m *macroStmt) exec(_ *renderer, s *scope) error {
	s.set(m.name, &function{m.name, func(r *renderer, a args) (value, error) { return m.call(r, s, a) }})
	return nil
}

// call renders the macro's body, which sees the variables around its
// definition.
func (m *macroStmt) call(r *renderer, around *scope, a args) (value, error) {
	if len(a.pos) > len(m.params) {
		return nil, r.failf("macro %q takes %d arguments, not %d", m.name, len(m.params), len(a.pos))
	}
	s := around.inner()
	for i, v := range a.pos {
		s.set(m.params[i].name, v)
	}
	for i, name := range a.names {
		known := false
		for j, p := range m.params {
			known = known || p.name == name && j >= len(a.pos)
		}
		if !known {
			return nil, r.failf("macro %q takes no keyword %q", m.name, name)
		}
		s.set(name, a.named[i])
	}
	for _, p := range m.params {
		if s.own(p.name) != nil {
			continue
		}
		if p.def == nil {
			s.set(p.name, &undefined{p.name})
			continue
		}
		v, err := r.eval(p.def, s)
		if err != nil {
			return nil, err
		}
		s.set(p.name, v)
	}
	return r.capture(m.body, s)
}

func (w *withStmt) exec(r *renderer, s *scope) error {
	inner := s.inner()
	for i, e := range w.values {
		v, err := r.eval(e, s)
		if err == nil {
			err = w.names[i].assign(r, inner, v)
		}
		if err != nil {
			return atLine(err, w.line)
		}
	}
	return r.exec(w.body, inner)
}

func (g *groupStmt) exec(r *renderer, s *scope) error { return r.exec(g.body, s) }

func (e *escapeStmt) exec(*renderer, *scope) error { return e.flow }
