// SPDX-License-Identifier: Apache-2.0

package jinja

import "slices"

// take matches the arguments of a call to parameters, by place or by name,
// and returns one value a parameter, nil where none is given. Arguments that
// match no parameter are an error.
func (r *renderer) take(what string, a args, params ...string) ([]value, []bool, error) {
	if len(a.pos) > len(params) {
		return nil, nil, r.failf("%s takes %d arguments at most, not %d", what, len(params), len(a.pos))
	}
	out, given := make([]value, len(params)), make([]bool, len(params))
	for i, v := range a.pos {
		out[i], given[i] = v, true
	}
	for i, name := range a.names {
		at := slices.Index(params, name)
		if at < 0 {
			return nil, nil, r.failf("%s takes no keyword %q", what, name)
		}
		if given[at] {
			return nil, nil, r.failf("%s is given %q twice", what, name)
		}
		out[at], given[at] = a.named[i], true
	}
	return out, given, nil
}

// one takes the only argument of a call, which must be there.
func (r *renderer) one(what string, a args) (value, error) {
	if len(a.pos) != 1 || len(a.names) > 0 {
		return nil, r.failf("%s takes one argument", what)
	}
	return a.pos[0], nil
}

// none checks that a call has no arguments.
func (r *renderer) none(what string, a args) error {
	if len(a.pos)+len(a.names) > 0 {
		return r.failf("%s takes no arguments", what)
	}
	return nil
}

// textArg returns a string argument, def where it is missing or none.
func (r *renderer) textArg(what string, v value, def string) (string, error) {
	switch v := v.(type) {
	case nil:
		return def, nil
	case string:
		return v, nil
	}
	return "", r.failf("%s is given %s, not a str", what, describe(v))
}

// intArg returns a whole number, def where it is missing or none.
func (r *renderer) intArg(what string, v value, def int64) (int64, error) {
	if v == nil {
		return def, nil
	}
	if n, ok := intOf(v); ok {
		return n, nil
	}
	return 0, r.failf("%s is given %s, not an int", what, describe(v))
}
