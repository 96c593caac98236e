// SPDX-License-Identifier: Apache-2.0

package jinja

import (
	"slices"
	"strconv"
	"strings"
)

func filterList(r *renderer, of value, a args) (value, error) {
	if err := r.none("list", a); err != nil {
		return nil, err
	}
	items, err := r.iterate(of)
	if err != nil {
		return nil, err
	}
	return &seq{kind: seqList, items: items}, r.growList(len(items))
}

// ends returns the elements of a value of which only the first or last
// matters.
func (r *renderer) ends(of value) ([]value, error) {
	if s, ok := of.(*seq); ok && s.kind != seqOnce {
		return s.items, nil
	}
	return r.iterate(of)
}

func filterFirst(r *renderer, of value, a args) (value, error) {
	items, err := r.ends(of)
	if err == nil {
		err = r.none("first", a)
	}
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return &undefined{"the first of nothing"}, nil
	}
	return items[0], nil
}

func filterLast(r *renderer, of value, a args) (value, error) {
	items, err := r.ends(of)
	if err == nil {
		err = r.none("last", a)
	}
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return &undefined{"the last of nothing"}, nil
	}
	return items[len(items)-1], nil
}

func filterJoin(r *renderer, of value, a args) (value, error) {
	v, _, err := r.take("join", a, "d", "attribute")
	if err != nil {
		return nil, err
	}
	sep := ""
	if v[0] != nil {
		if sep, err = r.str(v[0]); err != nil {
			return nil, err
		}
	}
	items, err := r.iterate(of)
	if err != nil {
		return nil, err
	}
	if v[1] != nil {
		if items, err = r.attrs(items, v[1], nil); err != nil {
			return nil, err
		}
	}
	return r.join(items, sep)
}

// path returns the attribute of v that a filter's argument names: parts with
// dots between, whole numbers among them as indices. def, unless nil, takes
// the place of each part that is undefined.
func (r *renderer) path(v, name value, def *value) (value, error) {
	text, err := "", error(nil)
	if n, ok := intOf(name); ok {
		text = strconv.FormatInt(n, 10)
	} else if text, err = r.textArg("attribute", name, ""); err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(text, ".") {
		var key value = part
		if n, err := strconv.ParseInt(part, 10, 32); err == nil {
			key = n
		}
		if err := r.spend(1); err != nil {
			return nil, err
		}
		if v, err = r.item(v, key); err != nil {
			return nil, err
		}
		if _, missing := v.(*undefined); missing && def != nil {
			v = *def
		}
	}
	return v, nil
}

// attrs returns an attribute of each item; def, unless nil, where it is
// undefined.
func (r *renderer) attrs(items []value, name value, def *value) ([]value, error) {
	if err := r.growList(len(items)); err != nil {
		return nil, err
	}
	out := make([]value, len(items))
	for i, item := range items {
		v, err := r.path(item, name, def)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func filterMap(r *renderer, of value, a args) (value, error) {
	items, err := r.iterate(of)
	if err != nil {
		return nil, err
	}
	if len(a.pos) == 0 {
		v, given, err := r.take("map", a, "attribute", "default")
		if err != nil {
			return nil, err
		}
		var def *value
		if given[1] {
			def = &v[1]
		}
		items, err = r.attrs(items, v[0], def)
		return &seq{kind: seqOnce, items: items}, err
	}
	name, _ := a.pos[0].(string)
	fn, ok := findFilter(name)
	if !ok {
		return nil, r.failf("map by filter %q, which is not supported", name)
	}
	if err := r.growList(len(items)); err != nil {
		return nil, err
	}
	out := make([]value, len(items))
	for i, item := range items {
		if err := r.callDown(item); err != nil {
			return nil, err
		}
		if out[i], err = fn(r, item, args{a.pos[1:], a.names, a.named}); err != nil {
			return nil, err
		}
		r.up()
	}
	return &seq{kind: seqOnce, items: out}, nil
}

// callDown accounts for a filter or test that another calls: map and select
// can name themselves. up undoes it.
func (r *renderer) callDown(of value) error {
	if err := r.down(); err != nil {
		return err
	}
	return r.touch(of)
}

// filterSelect makes select, reject, selectattr and rejectattr.
func filterSelect(name string, byAttr, keep bool) filterFunc {
	return func(r *renderer, of value, a args) (value, error) {
		if len(a.names) > 0 {
			return nil, r.failf("%s takes no keywords", name)
		}
		rest := a.pos
		var attr value
		if byAttr {
			if len(rest) == 0 {
				return nil, r.failf("%s needs an attribute", name)
			}
			attr, rest = rest[0], rest[1:]
		}
		test := func(_ *renderer, v value, _ []value) (bool, error) { return truth(v), nil }
		if len(rest) > 0 {
			text, _ := rest[0].(string)
			var ok bool
			if test, ok = tests[text]; !ok {
				return nil, r.failf("%s by test %q, which is not supported", name, text)
			}
			rest = rest[1:]
		}
		items, err := r.iterate(of)
		if err == nil {
			err = r.growList(len(items))
		}
		if err != nil {
			return nil, err
		}
		var out []value
		for _, item := range items {
			v := item
			if byAttr {
				if v, err = r.path(item, attr, nil); err != nil {
					return nil, err
				}
			}
			if err := r.callDown(v); err != nil {
				return nil, err
			}
			ok, err := test(r, v, rest)
			if err != nil {
				return nil, err
			}
			r.up()
			if ok == keep {
				out = append(out, item)
			}
		}
		return &seq{kind: seqOnce, items: out}, nil
	}
}

func filterReverse(r *renderer, of value, a args) (value, error) {
	if err := r.none("reverse", a); err != nil {
		return nil, err
	}
	if s, ok := of.(string); ok {
		back := int64(-1)
		return r.slice(s, nil, nil, &back)
	}
	items, err := r.iterate(of)
	if err == nil {
		err = r.growList(len(items))
	}
	if err != nil {
		return nil, err
	}
	items = slices.Clone(items)
	slices.Reverse(items)
	return &seq{kind: seqOnce, items: items}, nil
}

func filterSum(r *renderer, of value, a args) (value, error) {
	v, given, err := r.take("sum", a, "attribute", "start")
	if err != nil {
		return nil, err
	}
	total := value(int64(0))
	if given[1] {
		total = v[1]
	}
	items, err := r.iterate(of)
	if err == nil && v[0] != nil {
		items, err = r.attrs(items, v[0], nil)
	}
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		if err := r.spend(1); err != nil {
			return nil, err
		}
		if total, err = r.binary("+", total, item); err != nil {
			return nil, err
		}
	}
	return total, nil
}

func filterItems(r *renderer, of value, a args) (value, error) {
	if err := r.none("items", a); err != nil {
		return nil, err
	}
	switch of := of.(type) {
	case *undefined:
		return &seq{kind: seqOnce}, nil
	case *Dict:
		items, err := r.pairs(of)
		return &seq{kind: seqOnce, items: items}, err
	}
	return nil, r.failf("items of %s", describe(of))
}

func filterBatch(r *renderer, of value, a args) (value, error) {
	v, given, err := r.take("batch", a, "linecount", "fill_with")
	if err != nil {
		return nil, err
	}
	n, err := r.intArg("batch", v[0], 0)
	if err != nil {
		return nil, err
	}
	items, err := r.iterate(of)
	if err != nil {
		return nil, err
	}
	if n < 1 || given[1] && n > maxMade {
		return nil, r.failf("batch by %d", n)
	}
	if err := r.growList(2 * len(items)); err != nil {
		return nil, err
	}
	var out []value
	for part := range slices.Chunk(items, int(n)) {
		part = slices.Clone(part)
		if fill := int(n) - len(part); given[1] && v[1] != nil && fill > 0 {
			if err := r.growList(fill); err != nil {
				return nil, err
			}
			part = append(part, slices.Repeat([]value{v[1]}, fill)...)
		}
		out = append(out, &seq{kind: seqList, items: part})
	}
	return &seq{kind: seqOnce, items: out}, nil
}
