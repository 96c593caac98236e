// SPDX-License-Identifier: Apache-2.0

package jinja

import (
	"cmp"
	"math/big"
	"strings"
)

func (c *compareExpr) eval(r *renderer, s *scope) (value, error) {
	a, err := r.eval(c.first, s)
	if err != nil {
		return nil, err
	}
	for i, op := range c.ops {
		b, err := r.eval(c.rest[i], s)
		if err != nil {
			return nil, err
		}
		ok, err := r.compare(op, a, b)
		if err != nil || !ok {
			return false, atLine(err, c.line)
		}
		a = b
	}
	return true, nil
}

func (r *renderer) compare(op string, a, b value) (bool, error) {
	switch op {
	case "==", "!=":
		eq, err := r.equal(a, b, 0)
		return eq == (op == "=="), err
	case "in", "not in":
		in, err := r.contains(b, a)
		return in == (op == "in"), err
	}
	n, err := r.order(a, b, 0)
	if err != nil {
		return false, err
	}
	switch op {
	case "<":
		return n < 0, nil
	case "<=":
		return n <= 0, nil
	case ">":
		return n > 0, nil
	}
	return n >= 0, nil
}

// equal is Python's ==.
func (r *renderer) equal(a, b value, depth int) (bool, error) {
	if depth > maxNesting {
		return false, r.limit("values nested too deep")
	}
	if err := r.spend(1); err != nil {
		return false, err
	}
	switch x := a.(type) {
	case nil:
		return b == nil, nil
	case string:
		y, ok := b.(string)
		if !ok || len(x) != len(y) {
			return false, nil
		}
		return x == y, r.touch(x)
	case *undefined:
		_, ok := b.(*undefined)
		return ok, nil
	case *seq:
		y, ok := b.(*seq)
		if !ok || x.kind != y.kind || len(x.items) != len(y.items) {
			return false, nil
		}
		for i := range x.items {
			if eq, err := r.equal(x.items[i], y.items[i], depth+1); !eq || err != nil {
				return false, err
			}
		}
		return true, nil
	case *Dict:
		y, ok := b.(*Dict)
		if !ok || len(x.keys) != len(y.keys) {
			return false, nil
		}
		for i, k := range x.keys {
			v, ok := y.get(k)
			if !ok {
				return false, nil
			}
			if eq, err := r.equal(x.values[i], v, depth+1); !eq || err != nil {
				return false, err
			}
		}
		return true, nil
	case *big.Int:
		y, ok := b.(*big.Int)
		return ok && x.Cmp(y) == 0, nil
	}
	if n, ok := intOf(a); ok {
		if m, ok := intOf(b); ok {
			return n == m, nil
		}
	}
	f, okF := floatOf(a)
	g, okG := floatOf(b)
	if okF || okG {
		return okF && okG && f == g, nil
	}
	return a == b, nil
}

// order is Python's <, as a number below, at or above zero.
func (r *renderer) order(a, b value, depth int) (int, error) {
	if depth > maxNesting {
		return 0, r.limit("values nested too deep")
	}
	if err := r.spend(1); err != nil {
		return 0, err
	}
	if err := r.touch(a, b); err != nil {
		return 0, err
	}
	if x, ok := a.(string); ok {
		if y, ok := b.(string); ok {
			return strings.Compare(x, y), nil
		}
	}
	if n, ok := intOf(a); ok {
		if m, ok := intOf(b); ok {
			return cmp.Compare(n, m), nil
		}
	}
	f, okF := floatOf(a)
	g, okG := floatOf(b)
	if okF && okG {
		return cmp.Compare(f, g), nil
	}
	x, okX := a.(*seq)
	y, okY := b.(*seq)
	if okX && okY && x.kind == y.kind && x.kind <= seqTuple {
		for i := range min(len(x.items), len(y.items)) {
			if n, err := r.order(x.items[i], y.items[i], depth+1); n != 0 || err != nil {
				return n, err
			}
		}
		return cmp.Compare(len(x.items), len(y.items)), nil
	}
	return 0, r.failf("%s and %s have no order", describe(a), describe(b))
}

// contains is Python's item in of.
func (r *renderer) contains(of, item value) (bool, error) {
	if err := r.touch(of, item); err != nil {
		return false, err
	}
	switch x := of.(type) {
	case string:
		sub, ok := item.(string)
		if !ok {
			return false, r.failf("%s in a str", describe(item))
		}
		return strings.Contains(x, sub), nil
	case *Dict:
		_, ok := x.get(item)
		return ok, nil
	case *undefined:
		return false, nil
	}
	items, err := r.iterate(of)
	if err != nil {
		return false, err
	}
	for _, v := range items {
		if eq, err := r.equal(v, item, 0); eq || err != nil {
			return eq, err
		}
	}
	return false, nil
}

// iterate returns the elements of a value, to be walked; the caller does not
// change them.
func (r *renderer) iterate(v value) ([]value, error) {
	switch v := v.(type) {
	case *seq:
		items := v.items
		if v.kind == seqOnce {
			v.items = nil
		}
		return items, r.spend(len(items) / 4)
	case *Dict:
		return v.keys, r.spend(len(v.keys) / 4)
	case *undefined:
		return nil, nil
	case string:
		if err := r.growList(len(v)); err != nil {
			return nil, err
		}
		out := make([]value, 0, len(v))
		for _, c := range v {
			out = append(out, string(c))
		}
		return out, nil
	}
	return nil, r.failf("%s is not a list", describe(v))
}
