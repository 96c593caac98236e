// SPDX-License-Identifier: Apache-2.0

package jinja

import (
	"slices"
	"strings"
)

// splitArgs reads the arguments of split and rsplit: max is -1 without one.
func (r *renderer) splitArgs(name string, s string, a args) (sep string, blank bool, most int, err error) {
	v, _, err := r.take(name, a, "sep", "maxsplit")
	if err != nil {
		return "", false, 0, err
	}
	if sep, err = r.textArg(name, v[0], ""); err != nil {
		return "", false, 0, err
	}
	if sep == "" && v[0] != nil {
		return "", false, 0, r.failf("%s by an empty separator", name)
	}
	n, err := r.intArg(name, v[1], -1)
	if err != nil {
		return "", false, 0, err
	}
	// A part needs a byte of its separator, so that this bounds the list
	// before it is made.
	if err := r.growList(len(s) / max(1, len(sep))); err != nil {
		return "", false, 0, err
	}
	return sep, v[0] == nil, int(max(-1, min(n, int64(len(s))))), nil
}

func strSplit(r *renderer, s string, a args) (value, error) {
	sep, blank, most, err := r.splitArgs("split", s, a)
	if err != nil {
		return nil, err
	}
	if !blank {
		if most >= 0 {
			most++
		}
		return r.texts(strings.SplitN(s, sep, most))
	}
	var parts []string
	for s = strings.TrimLeftFunc(s, isPySpace); s != ""; {
		end := strings.IndexFunc(s, isPySpace)
		if end < 0 || most >= 0 && len(parts) == most {
			parts = append(parts, s)
			break
		}
		parts = append(parts, s[:end])
		s = strings.TrimLeftFunc(s[end:], isPySpace)
	}
	return r.texts(parts)
}

func strRsplit(r *renderer, s string, a args) (value, error) {
	sep, blank, most, err := r.splitArgs("rsplit", s, a)
	if err != nil {
		return nil, err
	}
	var parts []string
	last := func(s string) (at, size int) {
		if !blank {
			return strings.LastIndex(s, sep), len(sep)
		}
		at = strings.LastIndexFunc(s, isPySpace)
		return at, runeSize(s, at)
	}
	if blank {
		s = strings.TrimRightFunc(s, isPySpace)
	}
	for !blank || s != "" {
		at, size := last(s)
		if at < 0 || most >= 0 && len(parts) == most {
			parts = append(parts, s)
			break
		}
		parts = append(parts, s[at+size:])
		s = s[:at]
		if blank {
			s = strings.TrimRightFunc(s, isPySpace)
		}
	}
	slices.Reverse(parts)
	return r.texts(parts)
}

// runeSize returns the length of the character at i, 0 for i < 0.
func runeSize(s string, i int) int {
	if i < 0 {
		return 0
	}
	for n := range s[i:] {
		if n > 0 {
			return n
		}
	}
	return len(s) - i
}

func strSplitlines(r *renderer, s string, a args) (value, error) {
	v, _, err := r.take("splitlines", a, "keepends")
	if err != nil {
		return nil, err
	}
	if err := r.growList(len(s)); err != nil {
		return nil, err
	}
	return r.texts(splitLines(s, truth(v[0])))
}

// splitLines is Python's str.splitlines.
func splitLines(s string, keepEnds bool) (parts []string) {
	const ends = "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029"
	for s != "" {
		at := strings.IndexAny(s, ends)
		if at < 0 {
			parts = append(parts, s)
			break
		}
		size := runeSize(s, at)
		if strings.HasPrefix(s[at:], "\r\n") {
			size = 2
		}
		if keepEnds {
			parts = append(parts, s[:at+size])
		} else {
			parts = append(parts, s[:at])
		}
		s = s[at+size:]
	}
	return parts
}

func strReplace(r *renderer, s string, a args) (value, error) {
	v, given, err := r.take("replace", a, "old", "new", "count")
	if err != nil {
		return nil, err
	}
	from, okFrom := v[0].(string)
	to, okTo := v[1].(string)
	if !given[1] || !okFrom || !okTo {
		return nil, r.failf("replace needs two texts")
	}
	n, err := r.intArg("replace", v[2], -1)
	if err != nil {
		return nil, err
	}
	if count := int64(strings.Count(s, from)); n < 0 || n > count {
		n = count
	}
	if len(to) > 0 && n > maxMade/int64(len(to)) {
		return nil, r.limit("a replaced text is too long")
	}
	if err := r.grow(len(s) + int(n)*len(to)); err != nil {
		return nil, err
	}
	return strings.Replace(s, from, to, int(n)), nil
}

// join concatenates the texts of items.
func (r *renderer) join(items []value, sep string) (value, error) {
	var b strings.Builder
	for i, item := range items {
		text, err := r.str(item)
		if err == nil {
			err = r.grow(len(text) + len(sep))
		}
		if err == nil {
			err = r.spend(1)
		}
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteString(sep)
		}
		b.WriteString(text)
	}
	return b.String(), nil
}
