// SPDX-License-Identifier: Apache-2.0

package jinja

import (
	"math"
	"math/big"
	"slices"
	"strings"
)

func asInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// intOf returns a value that counts as a whole number.
func intOf(v value) (int64, bool) {
	switch v := v.(type) {
	case bool:
		return asInt(v), true
	case int64:
		return v, true
	}
	return 0, false
}

// floatOf returns any number.
func floatOf(v value) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64()
		return f, true
	}
	n, ok := intOf(v)
	return float64(n), ok
}

func (u *unaryExpr) eval(r *renderer, s *scope) (value, error) {
	v, err := r.eval(u.of, s)
	if err != nil {
		return nil, err
	}
	if n, ok := intOf(v); ok && n != math.MinInt64 {
		if u.neg {
			n = -n
		}
		return n, nil
	}
	if f, ok := v.(float64); ok {
		if u.neg {
			f = -f
		}
		return f, nil
	}
	return nil, atLine(r.failf("the sign of %s", describe(v)), u.line)
}

// describe names a value in an error.
func describe(v value) string {
	if u, ok := v.(*undefined); ok {
		return "undefined " + u.name
	}
	return "a " + typeName(v)
}

func (b *binaryExpr) eval(r *renderer, s *scope) (value, error) {
	x, err := r.eval(b.a, s)
	if err != nil {
		return nil, err
	}
	y, err := r.eval(b.b, s)
	if err != nil {
		return nil, err
	}
	v, err := r.binary(b.op, x, y)
	return v, atLine(err, b.line)
}

func (r *renderer) binary(op string, a, b value) (value, error) {
	n, okA := intOf(a)
	m, okB := intOf(b)
	if okA && okB {
		return r.intOp(op, n, m)
	}
	f, okF := floatOf(a)
	g, okG := floatOf(b)
	if okF && okG {
		return r.floatOp(op, f, g)
	}
	switch op {
	case "+":
		switch x := a.(type) {
		case string:
			if y, ok := b.(string); ok {
				return x + y, r.grow(len(x) + len(y))
			}
		case *seq:
			if y, ok := b.(*seq); ok && x.kind == y.kind && x.kind <= seqTuple {
				if err := r.growList(len(x.items) + len(y.items)); err != nil {
					return nil, err
				}
				return &seq{kind: x.kind, items: slices.Concat(x.items, y.items)}, nil
			}
		}
	case "*":
		if okA {
			a, b, m, okB = b, a, n, true
		}
		if okB {
			return r.repeat(a, b, m)
		}
	}
	return nil, r.failf("%s %s %s", describe(a), op, describe(b))
}

// repeat is a * n of a text or list. by is n as it came, for errors.
func (r *renderer) repeat(a, by value, n int64) (value, error) {
	n = max(n, 0)
	switch x := a.(type) {
	case string:
		if len(x) > 0 && n > maxMade/int64(len(x)) {
			return nil, r.limit("a repeated string is too long")
		}
		if err := r.grow(len(x) * int(n)); err != nil {
			return nil, err
		}
		return strings.Repeat(x, int(n)), nil
	case *seq:
		if x.kind > seqTuple {
			break
		}
		if len(x.items) > 0 && n > maxMade/int64(len(x.items)) {
			return nil, r.limit("a repeated list is too long")
		}
		if err := r.growList(len(x.items) * int(n)); err != nil {
			return nil, err
		}
		return &seq{kind: x.kind, items: slices.Repeat(x.items, int(n))}, nil
	}
	return nil, r.failf("%s * %s", describe(a), describe(by))
}

// intOp computes in 64 bits; Python goes on without bounds, here that is an
// error.
func (r *renderer) intOp(op string, a, b int64) (value, error) {
	over := func(v int64, ok bool) (value, error) {
		if !ok {
			return nil, r.failf("%d %s %d is beyond 64 bits", a, op, b)
		}
		return v, nil
	}
	switch op {
	case "+":
		c := a + b
		return over(c, (c > a) == (b > 0))
	case "-":
		c := a - b
		return over(c, (c < a) == (b > 0))
	case "*":
		c := a * b
		return over(c, a == 0 || c/a == b && (a != -1 || b != math.MinInt64))
	case "**":
		if b < 0 {
			return r.floatOp(op, float64(a), float64(b))
		}
		switch {
		case b == 0 || a == 1:
			return int64(1), nil
		case a == 0:
			return int64(0), nil
		case a == -1:
			return 1 - 2*(b%2), nil
		case b > 63:
			return over(0, false)
		}
		c := new(big.Int)
		c.Exp(big.NewInt(a), big.NewInt(b), nil)
		return over(c.Int64(), c.IsInt64())
	}
	if b == 0 {
		return nil, r.failf("division by zero")
	}
	if op == "/" {
		return float64(a) / float64(b), nil
	}
	if a == math.MinInt64 && b == -1 {
		return over(0, false)
	}
	q, m := a/b, a%b
	if m != 0 && (m < 0) != (b < 0) { // Python rounds down
		q, m = q-1, m+b
	}
	if op == "//" {
		return q, nil
	}
	return m, nil
}

func (r *renderer) floatOp(op string, a, b float64) (value, error) {
	switch op {
	case "+":
		return a + b, nil
	case "-":
		return a - b, nil
	case "*":
		return a * b, nil
	case "**":
		if a == 0 && b < 0 {
			return nil, r.failf("zero to a negative power")
		}
		if c := math.Pow(a, b); !math.IsNaN(c) || math.IsNaN(a) || math.IsNaN(b) {
			return c, nil
		}
		return nil, r.failf("a power that is no real number")
	}
	if b == 0 {
		return nil, r.failf("division by zero")
	}
	switch op {
	case "/":
		return a / b, nil
	case "//":
		return math.Floor(a / b), nil
	}
	m := math.Mod(a, b)
	if m != 0 && (m < 0) != (b < 0) {
		m += b
	}
	return m, nil
}

func (c *concatExpr) eval(r *renderer, s *scope) (value, error) {
	var b strings.Builder
	for _, e := range c.parts {
		v, err := r.eval(e, s)
		if err != nil {
			return nil, err
		}
		text, err := r.str(v)
		if err == nil {
			err = r.grow(len(text))
		}
		if err != nil {
			return nil, atLine(err, c.line)
		}
		b.WriteString(text)
	}
	return b.String(), nil
}
