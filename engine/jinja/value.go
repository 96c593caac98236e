// SPDX-License-Identifier: Apache-2.0

package jinja

import (
	"math"
	"math/big"
)

// value is what an expression gives: nil (none), bool, int64, *big.Int
// (beyond 64 bits: passed on and printed, not computed with), float64,
// string (UTF-8), *seq, *Dict, *namespace, *undefined, *function or *loop.
type value any

// undefined is what a missing name or attribute gives. It prints as nothing
// and is false, but any use beyond that is an error that names it.
type undefined struct{ name string }

type seqKind uint8

const (
	seqList seqKind = iota
	seqTuple
	seqView  // keys(), values(), items() of a dictionary: no index
	seqRange // prints differently from a list
	seqOnce  // an iterator: true, without length, gone once read
)

// seq is a sequence. It does not change, but for one that is read once.
type seq struct {
	kind  seqKind
	items []value
}

// Dict is a dictionary, which keeps its keys in order: the variables of a
// rendering, or one among them. The zero value is empty. No key is set once a
// rendering has begun that sees it.
type Dict struct {
	keys   []value
	values []value
	index  map[any]int // hashKey of a key -> position
}

func newDict(n int) *Dict { return &Dict{index: make(map[any]int, n)} }

// put sets a key; false where a value cannot be one.
func (d *Dict) put(key, v value) bool {
	h, ok := hashKey(key)
	if !ok {
		return false
	}
	if i, found := d.index[h]; found {
		d.values[i] = v
		return true
	}
	if d.index == nil {
		d.index = make(map[any]int)
	}
	d.index[h] = len(d.keys)
	d.keys, d.values = append(d.keys, key), append(d.values, v)
	return true
}

func (d *Dict) get(key value) (value, bool) {
	if h, ok := hashKey(key); ok {
		if i, found := d.index[h]; found {
			return d.values[i], true
		}
	}
	return nil, false
}

// hashKey maps keys that are equal to one map key: 1, 1.0 and true are.
func hashKey(key value) (any, bool) {
	switch k := key.(type) {
	case nil:
		return struct{}{}, true
	case bool:
		if k {
			return int64(1), true
		}
		return int64(0), true
	case int64, string:
		return k, true
	case *big.Int:
		return [2]string{"int", k.String()}, true
	case float64:
		if k == math.Trunc(k) && math.Abs(k) < 1<<62 {
			return int64(k), true
		}
		return k, k == k
	}
	return nil, false
}

// namespace is the one kind of value that statements change.
type namespace struct{ d map[string]value }

// function is a macro, a global function or a method bound to its value.
type function struct {
	name string
	call func(r *renderer, a args) (value, error)
}

// args are the evaluated arguments of a call.
type args struct {
	pos   []value
	names []string
	named []value // [len(names)]
}

// loop is the variable of that name in a loop body.
type loop struct {
	items       []value
	at          int
	last        value // argument of the last changed()
	changedOnce bool
}

func (l *loop) attr(name string) (value, bool) {
	at, n := int64(l.at), int64(len(l.items))
	switch name {
	case "index":
		return at + 1, true
	case "index0":
		return at, true
	case "revindex":
		return n - at, true
	case "revindex0":
		return n - at - 1, true
	case "first":
		return at == 0, true
	case "last":
		return at == n-1, true
	case "length":
		return n, true
	case "depth": // counts recursive loops only
		return int64(1), true
	case "depth0":
		return int64(0), true
	case "previtem":
		if at == 0 {
			return &undefined{"loop.previtem"}, true
		}
		return l.items[at-1], true
	case "nextitem":
		if at == n-1 {
			return &undefined{"loop.nextitem"}, true
		}
		return l.items[at+1], true
	case "cycle":
		return &function{"cycle", l.cycle}, true
	case "changed":
		return &function{"changed", l.changed}, true
	}
	return nil, false
}

func (l *loop) cycle(r *renderer, a args) (value, error) {
	if len(a.pos) == 0 {
		return nil, r.failf("loop.cycle needs arguments")
	}
	return a.pos[l.at%len(a.pos)], nil
}

func (l *loop) changed(r *renderer, a args) (value, error) {
	now := &seq{kind: seqTuple, items: a.pos}
	same := false
	if l.changedOnce {
		var err error
		if same, err = r.equal(l.last, now, 0); err != nil {
			return nil, err
		}
	}
	l.last, l.changedOnce = now, true
	return !same, nil
}

// truth is Python's bool().
func truth(v value) bool {
	switch v := v.(type) {
	case nil, *undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case *seq:
		return v.kind == seqOnce || len(v.items) > 0
	case *Dict:
		return len(v.keys) > 0
	}
	return true
}

// typeName is Python's name of a value's type, for errors.
func typeName(v value) string {
	switch v := v.(type) {
	case nil:
		return "none"
	case *undefined:
		return "undefined"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case *seq:
		return [...]string{"list", "tuple", "view", "range", "iterator"}[v.kind]
	case *Dict:
		return "dict"
	case *namespace:
		return "namespace"
	case *loop:
		return "loop"
	}
	return "function"
}
