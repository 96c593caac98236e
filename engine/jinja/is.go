// SPDX-License-Identifier: Apache-2.0

package jinja

import (
	"math/big"
	"strings"
	"unicode"
)

type testFunc = func(r *renderer, of value, a []value) (bool, error)

// tests are those after "is".
var tests = map[string]testFunc{
	"defined":   kindTest(func(v value) bool { _, u := v.(*undefined); return !u }),
	"undefined": kindTest(func(v value) bool { _, u := v.(*undefined); return u }),
	"none":      kindTest(func(v value) bool { return v == nil }),
	"boolean":   kindTest(func(v value) bool { _, ok := v.(bool); return ok }),
	"true":      kindTest(func(v value) bool { b, ok := v.(bool); return ok && b }),
	"false":     kindTest(func(v value) bool { b, ok := v.(bool); return ok && !b }),
	"string":    kindTest(func(v value) bool { _, ok := v.(string); return ok }),
	"integer":   kindTest(isInteger),
	"float":     kindTest(func(v value) bool { _, ok := v.(float64); return ok }),
	"number":    kindTest(func(v value) bool { _, ok := floatOf(v); return ok }),
	"mapping":   kindTest(func(v value) bool { _, ok := v.(*Dict); return ok }),
	"sequence":  kindTest(isSequence),
	"iterable":  kindTest(isIterable),
	"callable":  kindTest(func(v value) bool { _, ok := v.(*function); return ok }),
	"lower":     caseTest(unicode.IsLower, unicode.IsUpper),
	"upper":     caseTest(unicode.IsUpper, unicode.IsLower),
	"odd":       remainderTest("odd", 1),
	"even":      remainderTest("even", 0),
	"divisibleby": func(r *renderer, of value, a []value) (bool, error) {
		if len(a) != 1 {
			return false, r.failf("divisibleby takes one argument")
		}
		m, err := r.binary("%", of, a[0])
		if err != nil {
			return false, err
		}
		return r.equal(m, int64(0), 0)
	},
	"eq":          compareTest("=="),
	"equalto":     compareTest("=="),
	"==":          compareTest("=="),
	"ne":          compareTest("!="),
	"!=":          compareTest("!="),
	"lt":          compareTest("<"),
	"lessthan":    compareTest("<"),
	"<":           compareTest("<"),
	"le":          compareTest("<="),
	"<=":          compareTest("<="),
	"gt":          compareTest(">"),
	"greaterthan": compareTest(">"),
	">":           compareTest(">"),
	"ge":          compareTest(">="),
	">=":          compareTest(">="),
	"in":          compareTest("in"),
	"sameas": func(r *renderer, of value, a []value) (bool, error) {
		if len(a) != 1 {
			return false, r.failf("sameas takes one argument")
		}
		return of == a[0], nil
	},
}

// kindTest makes a test of a value's kind.
func kindTest(is func(value) bool) testFunc {
	return func(r *renderer, of value, a []value) (bool, error) {
		if len(a) > 0 {
			return false, r.failf("a test takes no argument, but has one")
		}
		return is(of), nil
	}
}

func isInteger(v value) bool {
	switch v.(type) {
	case int64, *big.Int:
		return true
	}
	return false
}

// isSequence: has a length and items by index, which texts and dictionaries
// (by their keys) have in Python.
func isSequence(v value) bool {
	switch v := v.(type) {
	case string, *Dict, *undefined:
		return true
	case *seq:
		return v.kind != seqView && v.kind != seqOnce
	}
	return false
}

func isIterable(v value) bool {
	switch v.(type) {
	case string, *Dict, *seq, *undefined:
		return true
	}
	return false
}

func caseTest(want, not func(rune) bool) testFunc {
	return func(r *renderer, of value, _ []value) (bool, error) {
		s, err := r.str(of)
		return strings.IndexFunc(s, want) >= 0 && strings.IndexFunc(s, not) < 0, err
	}
}

func remainderTest(name string, want int64) testFunc {
	return func(r *renderer, of value, a []value) (bool, error) {
		if len(a) > 0 {
			return false, r.failf("%s takes no argument", name)
		}
		m, err := r.binary("%", of, int64(2))
		if err != nil {
			return false, err
		}
		return r.equal(m, want, 0)
	}
}

func compareTest(op string) testFunc {
	return func(r *renderer, of value, a []value) (bool, error) {
		if len(a) != 1 {
			return false, r.failf("a comparing test takes one argument")
		}
		if err := r.touch(a...); err != nil {
			return false, err
		}
		return r.compare(op, of, a[0])
	}
}
