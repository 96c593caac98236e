// SPDX-License-Identifier: Apache-2.0

package jinja

import (
	"slices"
	"strings"
)

// keyed is an item and what it sorts by.
type keyed struct{ key, item value }

// keys returns the items with what they sort by: an attribute if named, and
// texts in lower case unless case counts.
func (r *renderer) keys(items []value, attr, caseCounts value) ([]keyed, error) {
	if err := r.growList(3 * len(items)); err != nil {
		return nil, err
	}
	out := make([]keyed, len(items))
	for i, item := range items {
		key := item
		var err error
		if attr != nil {
			if key, err = r.path(item, attr, nil); err != nil {
				return nil, err
			}
		}
		if s, ok := key.(string); ok && !truth(caseCounts) {
			if err := r.grow(3 * len(s)); err != nil {
				return nil, err
			}
			key = strings.ToLower(s)
		}
		out[i] = keyed{key, item}
	}
	return out, nil
}

// sorted sorts by key, stably, and returns the items.
func (r *renderer) sorted(ks []keyed, reverse bool) ([]value, error) {
	var failed error
	slices.SortStableFunc(ks, func(a, b keyed) int {
		if failed != nil {
			return 0
		}
		n, err := r.order(a.key, b.key, 0)
		failed = err
		if reverse {
			n = -n
		}
		return n
	})
	out := make([]value, len(ks))
	for i := range ks {
		out[i] = ks[i].item
	}
	return out, failed
}

func filterSort(r *renderer, of value, a args) (value, error) {
	v, _, err := r.take("sort", a, "reverse", "case_sensitive", "attribute")
	if err != nil {
		return nil, err
	}
	items, err := r.iterate(of)
	if err != nil {
		return nil, err
	}
	ks, err := r.keys(items, v[2], v[1])
	if err != nil {
		return nil, err
	}
	out, err := r.sorted(ks, truth(v[0]))
	return &seq{kind: seqList, items: out}, err
}

func filterDictsort(r *renderer, of value, a args) (value, error) {
	v, _, err := r.take("dictsort", a, "case_sensitive", "by", "reverse")
	if err != nil {
		return nil, err
	}
	d, ok := of.(*Dict)
	if !ok {
		return nil, r.failf("dictsort of %s", describe(of))
	}
	at := value(int64(0))
	switch v[1] {
	case nil, "key":
	case "value":
		at = int64(1)
	default:
		return nil, r.failf("dictsort is by key or value")
	}
	items, err := r.pairs(d)
	if err != nil {
		return nil, err
	}
	ks, err := r.keys(items, at, v[0])
	if err != nil {
		return nil, err
	}
	out, err := r.sorted(ks, truth(v[2]))
	return &seq{kind: seqList, items: out}, err
}

func filterUnique(r *renderer, of value, a args) (value, error) {
	v, _, err := r.take("unique", a, "case_sensitive", "attribute")
	if err != nil {
		return nil, err
	}
	items, err := r.iterate(of)
	if err != nil {
		return nil, err
	}
	ks, err := r.keys(items, v[1], v[0])
	if err != nil {
		return nil, err
	}
	seen := newDict(0)
	var out []value
	for _, k := range ks {
		if _, ok := seen.get(k.key); ok {
			continue
		}
		if !seen.put(k.key, nil) {
			return nil, r.failf("unique of %s", describe(k.key))
		}
		out = append(out, k.item)
	}
	return &seq{kind: seqOnce, items: out}, nil
}

func filterExtreme(name string, sign int) filterFunc {
	return func(r *renderer, of value, a args) (value, error) {
		v, _, err := r.take(name, a, "case_sensitive", "attribute")
		if err != nil {
			return nil, err
		}
		items, err := r.iterate(of)
		if err != nil {
			return nil, err
		}
		ks, err := r.keys(items, v[1], v[0])
		if err != nil {
			return nil, err
		}
		if len(ks) == 0 {
			return &undefined{"the " + name + " of nothing"}, nil
		}
		best := ks[0]
		for _, k := range ks[1:] {
			n, err := r.order(k.key, best.key, 0)
			if err != nil {
				return nil, err
			}
			if n*sign > 0 {
				best = k
			}
		}
		return best.item, nil
	}
}
