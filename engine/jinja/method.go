// SPDX-License-Identifier: Apache-2.0

package jinja

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// method returns a method bound to a value. Those that would change their
// value (append, update …) are not there, as in the reference's sandbox.
func method(of value, name string) (*function, bool) {
	switch of := of.(type) {
	case string:
		if m, ok := strMethods[name]; ok {
			return &function{name, func(r *renderer, a args) (value, error) {
				if err := r.touch(of); err != nil {
					return nil, err
				}
				return m(r, of, a)
			}}, true
		}
	case *Dict:
		if m, ok := dictMethods[name]; ok {
			return &function{name, func(r *renderer, a args) (value, error) { return m(r, of, a) }}, true
		}
	case *seq:
		if m, ok := listMethods[name]; ok && of.kind <= seqTuple {
			return &function{name, func(r *renderer, a args) (value, error) { return m(r, of, a) }}, true
		}
	}
	return nil, false
}

var dictMethods = map[string]func(r *renderer, d *Dict, a args) (value, error){
	"get": func(r *renderer, d *Dict, a args) (value, error) {
		v, _, err := r.take("get", a, "key", "default")
		if err != nil {
			return nil, err
		}
		if found, ok := d.get(v[0]); ok {
			return found, nil
		}
		return v[1], nil
	},
	"keys":   func(r *renderer, d *Dict, a args) (value, error) { return d.view(r, "keys", a) },
	"values": func(r *renderer, d *Dict, a args) (value, error) { return d.view(r, "values", a) },
	"items":  func(r *renderer, d *Dict, a args) (value, error) { return d.view(r, "items", a) },
	"copy":   func(r *renderer, d *Dict, a args) (value, error) { return d, r.none("copy", a) },
}

func (d *Dict) view(r *renderer, name string, a args) (value, error) {
	if err := r.none(name, a); err != nil {
		return nil, err
	}
	switch name {
	case "keys":
		return &seq{kind: seqView, items: d.keys}, nil
	case "values":
		return &seq{kind: seqView, items: d.values}, nil
	}
	items, err := r.pairs(d)
	return &seq{kind: seqView, items: items}, err
}

// pairs returns the (key, value) tuples of a dictionary.
func (r *renderer) pairs(d *Dict) ([]value, error) {
	if err := r.growList(6 * len(d.keys)); err != nil {
		return nil, err
	}
	items := make([]value, len(d.keys))
	for i := range items {
		items[i] = &seq{kind: seqTuple, items: []value{d.keys[i], d.values[i]}}
	}
	return items, nil
}

var listMethods = map[string]func(r *renderer, l *seq, a args) (value, error){
	"index": func(r *renderer, l *seq, a args) (value, error) {
		v, err := r.one("index", a)
		if err != nil {
			return nil, err
		}
		for i, item := range l.items {
			if eq, err := r.equal(item, v, 0); eq || err != nil {
				return int64(i), err
			}
		}
		return nil, r.failf("the item is not in the list")
	},
	"count": func(r *renderer, l *seq, a args) (value, error) {
		v, err := r.one("count", a)
		if err != nil {
			return nil, err
		}
		n := int64(0)
		for _, item := range l.items {
			eq, err := r.equal(item, v, 0)
			if err != nil {
				return nil, err
			}
			n += asInt(eq)
		}
		return n, nil
	},
}

type strMethod = func(r *renderer, s string, a args) (value, error)

var strMethods = map[string]strMethod{
	"upper":      plain("upper", strings.ToUpper),
	"lower":      plain("lower", strings.ToLower),
	"title":      plain("title", title),
	"capitalize": plain("capitalize", capitalize),
	"strip":      stripper("strip", true, true),
	"lstrip":     stripper("lstrip", true, false),
	"rstrip":     stripper("rstrip", false, true),
	"startswith": fixMethod("startswith", strings.HasPrefix),
	"endswith":   fixMethod("endswith", strings.HasSuffix),
	"removeprefix": pair("removeprefix", func(s, t string) (value, bool) {
		return strings.TrimPrefix(s, t), true
	}),
	"removesuffix": pair("removesuffix", func(s, t string) (value, bool) {
		return strings.TrimSuffix(s, t), true
	}),
	"find":  pair("find", func(s, t string) (value, bool) { return runeIndex(s, strings.Index(s, t)), true }),
	"rfind": pair("rfind", func(s, t string) (value, bool) { return runeIndex(s, strings.LastIndex(s, t)), true }),
	"index": pair("index", func(s, t string) (value, bool) {
		i := runeIndex(s, strings.Index(s, t))
		return i, i != int64(-1)
	}),
	"count":   pair("count", func(s, t string) (value, bool) { return int64(strings.Count(s, t)), true }),
	"split":   strSplit,
	"rsplit":  strRsplit,
	"replace": strReplace,
	"join": func(r *renderer, s string, a args) (value, error) {
		v, err := r.one("join", a)
		if err != nil {
			return nil, err
		}
		items, err := r.iterate(v)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			if _, ok := item.(string); !ok {
				return nil, r.failf("join of %s", describe(item))
			}
		}
		return r.join(items, s)
	},
	"splitlines": strSplitlines,
	"partition": func(r *renderer, s string, a args) (value, error) {
		return r.partition("partition", s, a, strings.Index)
	},
	"rpartition": func(r *renderer, s string, a args) (value, error) {
		return r.partition("rpartition", s, a, strings.LastIndex)
	},
	"isdigit": every("isdigit", func(c rune) bool { return unicode.Is(unicode.Nd, c) }),
	"isalpha": every("isalpha", unicode.IsLetter),
	"isalnum": every("isalnum", func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }),
	"isspace": every("isspace", isPySpace),
	"isupper": cased("isupper", unicode.IsUpper, unicode.IsLower),
	"islower": cased("islower", unicode.IsLower, unicode.IsUpper),
}

// plain makes a method of a function that may lengthen a text threefold.
func plain(name string, f func(string) string) strMethod {
	return func(r *renderer, s string, a args) (value, error) {
		if err := r.none(name, a); err != nil {
			return nil, err
		}
		return f(s), r.grow(3 * len(s))
	}
}

func title(s string) string {
	inWord := false
	return strings.Map(func(c rune) rune {
		start := !inWord
		inWord = unicode.IsLetter(c)
		if start {
			return unicode.ToTitle(c)
		}
		return unicode.ToLower(c)
	}, s)
}

func capitalize(s string) string {
	c, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return ""
	}
	return string(unicode.ToTitle(c)) + strings.ToLower(s[n:])
}

func stripper(name string, left, right bool) strMethod {
	return func(r *renderer, s string, a args) (value, error) {
		v, _, err := r.take(name, a, "chars")
		if err != nil {
			return nil, err
		}
		cut := isPySpace
		if v[0] != nil {
			chars, err := r.textArg(name, v[0], "")
			if err != nil {
				return nil, err
			}
			if err := r.spend(len(s) / scanBytes * (1 + len(chars)/scanBytes)); err != nil {
				return nil, err
			}
			cut = func(c rune) bool { return strings.ContainsRune(chars, c) }
		}
		return strip(s, left, right, cut), nil
	}
}

func strip(s string, left, right bool, cut func(rune) bool) string {
	if left {
		s = strings.TrimLeftFunc(s, cut)
	}
	if right {
		s = strings.TrimRightFunc(s, cut)
	}
	return s
}

// fixMethod is startswith and endswith: of one string or any of a tuple.
func fixMethod(name string, has func(s, fix string) bool) strMethod {
	return func(r *renderer, s string, a args) (value, error) {
		v, err := r.one(name, a)
		if err != nil {
			return nil, err
		}
		options := []value{v}
		if t, ok := v.(*seq); ok && t.kind == seqTuple {
			options = t.items
		}
		for _, o := range options {
			fix, ok := o.(string)
			if !ok {
				return nil, r.failf("%s is given %s", name, describe(o))
			}
			if err := r.touch(fix, s[:min(len(s), len(fix))]); err != nil {
				return nil, err
			}
			if has(s, fix) {
				return true, nil
			}
		}
		return false, nil
	}
}

// pair makes a method with one text as its argument; not ok is an error.
func pair(name string, f func(s, t string) (value, bool)) strMethod {
	return func(r *renderer, s string, a args) (value, error) {
		v, err := r.one(name, a)
		if err != nil {
			return nil, err
		}
		t, ok := v.(string)
		if !ok {
			return nil, r.failf("%s is given %s", name, describe(v))
		}
		out, ok := f(s, t)
		if !ok {
			return nil, r.failf("%s: the text is not found", name)
		}
		return out, nil
	}
}

// runeIndex turns a byte position into one in characters.
func runeIndex(s string, i int) int64 {
	if i < 0 {
		return -1
	}
	return int64(utf8.RuneCountInString(s[:i]))
}

func every(name string, is func(rune) bool) strMethod {
	return func(r *renderer, s string, a args) (value, error) {
		not := func(c rune) bool { return !is(c) }
		return s != "" && strings.IndexFunc(s, not) < 0, r.none(name, a)
	}
}

func cased(name string, want, not func(rune) bool) strMethod {
	return func(r *renderer, s string, a args) (value, error) {
		return strings.IndexFunc(s, want) >= 0 && strings.IndexFunc(s, not) < 0, r.none(name, a)
	}
}

// texts makes a list of strings.
func (r *renderer) texts(parts []string) (value, error) {
	if err := r.growList(2 * len(parts)); err != nil {
		return nil, err
	}
	out := &seq{kind: seqList, items: make([]value, len(parts))}
	for i, p := range parts {
		out.items[i] = p
	}
	return out, nil
}

func (r *renderer) partition(name, s string, a args, find func(s, sep string) int) (value, error) {
	v, err := r.one(name, a)
	if err != nil {
		return nil, err
	}
	sep, ok := v.(string)
	if !ok || sep == "" {
		return nil, r.failf("%s needs a separator", name)
	}
	at := find(s, sep)
	parts := []value{s, "", ""}
	switch {
	case at >= 0:
		parts = []value{s[:at], sep, s[at+len(sep):]}
	case name == "rpartition":
		slices.Reverse(parts)
	}
	return &seq{kind: seqTuple, items: parts}, nil
}
