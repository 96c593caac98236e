// SPDX-License-Identifier: Apache-2.0

package jinja

import (
	"fmt"
	"strings"
	"time"
)

// maxRange is the reference sandbox's limit for range().
const maxRange = 100_000

// globals are the functions a template may call.
var globals = map[string]*function{
	"range":           {"range", globalRange},
	"namespace":       {"namespace", globalNamespace},
	"dict":            {"dict", globalDict},
	"raise_exception": {"raise_exception", globalRaise},
	"strftime_now":    {"strftime_now", globalNow},
}

func globalRange(r *renderer, a args) (value, error) {
	if len(a.pos) < 1 || len(a.pos) > 3 || len(a.names) > 0 {
		return nil, r.failf("range takes one to three numbers")
	}
	n := [3]int64{0, 0, 1}
	for i, v := range a.pos {
		var ok bool
		if n[i], ok = intOf(v); !ok {
			return nil, r.failf("range of %s", describe(v))
		}
	}
	if len(a.pos) == 1 {
		n[0], n[1] = 0, n[0]
	}
	from, to, step := n[0], n[1], n[2]
	if step == 0 {
		return nil, r.failf("range with a step of zero")
	}
	out := &seq{kind: seqRange}
	for v := from; step > 0 && v < to || step < 0 && v > to; {
		if len(out.items) == maxRange {
			return nil, r.limit(fmt.Sprintf("a range over %d", maxRange))
		}
		out.items = append(out.items, v)
		next := v + step
		if (next > v) != (step > 0) { // wrapped
			break
		}
		v = next
	}
	return out, r.growList(len(out.items))
}

func globalNamespace(r *renderer, a args) (value, error) {
	d, err := globalDict(r, a)
	if err != nil {
		return nil, err
	}
	ns := &namespace{make(map[string]value)}
	for i, k := range d.(*Dict).keys {
		name, ok := k.(string)
		if !ok {
			return nil, r.failf("a namespace's attribute is %s", describe(k))
		}
		ns.d[name] = d.(*Dict).values[i]
	}
	return ns, nil
}

func globalDict(r *renderer, a args) (value, error) {
	out := newDict(len(a.names))
	if len(a.pos) > 1 {
		return nil, r.failf("dict takes one argument and keywords")
	}
	if len(a.pos) == 1 {
		of, ok := a.pos[0].(*Dict)
		if !ok {
			return nil, r.failf("dict of %s", describe(a.pos[0]))
		}
		if err := r.growList(6 * len(of.keys)); err != nil {
			return nil, err
		}
		for i, k := range of.keys {
			out.put(k, of.values[i])
		}
	}
	for i, name := range a.names {
		out.put(name, a.named[i])
	}
	return out, r.growList(6 * len(a.names))
}

func globalRaise(r *renderer, a args) (value, error) {
	v, err := r.one("raise_exception", a)
	if err != nil {
		return nil, err
	}
	text, err := r.str(v)
	if err != nil {
		return nil, err
	}
	return nil, &Error{Msg: text, Raised: true}
}

// globalNow is the current local time by the directives of C's strftime that
// templates use.
func globalNow(r *renderer, a args) (value, error) {
	v, err := r.one("strftime_now", a)
	if err != nil {
		return nil, err
	}
	format, ok := v.(string)
	if !ok || len(format) > 1000 {
		return nil, r.failf("strftime_now by no or too long a format")
	}
	layouts := map[byte]string{
		'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'd': "02", 'm': "01", 'y': "06", 'Y': "2006",
		'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'j': "002", 'F': "2006-01-02", 'T': "15:04:05",
		'D': "01/02/06", 'R': "15:04", 'e': "_2", 'h': "Jan", 'c': time.ANSIC, 'x': "01/02/06", 'X': "15:04:05",
	}
	now := r.now()
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		layout, ok := layouts[format[i]]
		switch {
		case format[i] == '%':
			b.WriteByte('%')
		case !ok:
			return nil, r.failf("strftime_now with %%%c is not supported", format[i])
		default:
			b.WriteString(now.Format(layout))
		}
	}
	return b.String(), r.grow(b.Len())
}
