// SPDX-License-Identifier: Apache-2.0

package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

type filterFunc = func(r *renderer, of value, a args) (value, error)

// filters are those of Jinja that chat templates have a use for. A template
// with another is refused when it is parsed.
var filters = map[string]filterFunc{
	"abs":        filterAbs,
	"batch":      filterBatch,
	"capitalize": filterText("capitalize", capitalize),
	"count":      filterLength,
	"d":          filterDefault,
	"default":    filterDefault,
	"dictsort":   filterDictsort,
	"first":      filterFirst,
	"float":      filterFloat,
	"indent":     filterIndent,
	"int":        filterInt,
	"items":      filterItems,
	"join":       filterJoin,
	"last":       filterLast,
	"length":     filterLength,
	"list":       filterList,
	"lower":      filterText("lower", strings.ToLower),
	"max":        filterExtreme("max", 1),
	"min":        filterExtreme("min", -1),
	"reject":     filterSelect("reject", false, false),
	"rejectattr": filterSelect("rejectattr", true, false),
	"replace":    filterReplace,
	"reverse":    filterReverse,
	"round":      filterRound,
	"safe":       filterString,
	"select":     filterSelect("select", false, true),
	"selectattr": filterSelect("selectattr", true, true),
	"sort":       filterSort,
	"string":     filterString,
	"sum":        filterSum,
	"title":      filterText("title", title),
	"tojson":     filterToJSON,
	"trim":       filterTrim,
	"unique":     filterUnique,
	"upper":      filterText("upper", strings.ToUpper),
}

// findFilter returns a filter by name. The one that calls others by name is
// not in the table, which it reads.
func findFilter(name string) (filterFunc, bool) {
	if name == "map" {
		return filterMap, true
	}
	fn, ok := filters[name]
	return fn, ok
}

// filterText makes a filter of a function on texts that may lengthen one
// threefold. Other values are printed first.
func filterText(name string, f func(string) string) filterFunc {
	return func(r *renderer, of value, a args) (value, error) {
		if err := r.none(name, a); err != nil {
			return nil, err
		}
		s, err := r.str(of)
		if err != nil {
			return nil, err
		}
		return f(s), r.grow(3 * len(s))
	}
}

func filterString(r *renderer, of value, a args) (value, error) {
	if err := r.none("string", a); err != nil {
		return nil, err
	}
	return r.str(of)
}

func filterTrim(r *renderer, of value, a args) (value, error) {
	s, err := r.str(of)
	if err != nil {
		return nil, err
	}
	return strMethods["strip"](r, s, a)
}

func filterReplace(r *renderer, of value, a args) (value, error) {
	s, err := r.str(of)
	if err != nil {
		return nil, err
	}
	return strReplace(r, s, a)
}

func filterLength(r *renderer, of value, a args) (value, error) {
	if err := r.none("length", a); err != nil {
		return nil, err
	}
	switch of := of.(type) {
	case string:
		return int64(utf8.RuneCountInString(of)), nil
	case *seq:
		if of.kind != seqOnce {
			return int64(len(of.items)), nil
		}
	case *Dict:
		return int64(len(of.keys)), nil
	case *undefined:
		return int64(0), nil
	}
	return nil, r.failf("%s has no length", describe(of))
}

func filterDefault(r *renderer, of value, a args) (value, error) {
	v, given, err := r.take("default", a, "default_value", "boolean")
	if err != nil {
		return nil, err
	}
	if !given[0] {
		v[0] = ""
	}
	_, missing := of.(*undefined)
	if missing || truth(v[1]) && !truth(of) {
		return v[0], nil
	}
	return of, nil
}

func filterInt(r *renderer, of value, a args) (value, error) {
	v, given, err := r.take("int", a, "default", "base")
	if err != nil {
		return nil, err
	}
	if !given[0] {
		v[0] = int64(0)
	}
	base, err := r.intArg("int", v[1], 10)
	if err != nil {
		return nil, err
	}
	switch x := of.(type) {
	case bool, int64:
		n, _ := intOf(x)
		return n, nil
	case *big.Int:
		return x, nil
	case float64:
		if math.Abs(x) < 1<<63 {
			return int64(x), nil
		}
	case string:
		s := strings.TrimFunc(x, isPySpace)
		if base < 2 || base > 36 {
			return nil, r.failf("int of base %d", base)
		}
		if n, err := strconv.ParseInt(s, int(base), 64); err == nil {
			return n, nil
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil && math.Abs(f) < 1<<63 {
			return int64(f), nil
		}
	case *undefined:
		return nil, r.failf("int of %s", describe(of))
	}
	return v[0], nil
}

func filterFloat(r *renderer, of value, a args) (value, error) {
	v, given, err := r.take("float", a, "default")
	if err != nil {
		return nil, err
	}
	if !given[0] {
		v[0] = 0.0
	}
	switch x := of.(type) {
	case string:
		if f, err := strconv.ParseFloat(strings.TrimFunc(x, isPySpace), 64); err == nil {
			return f, nil
		}
	case *undefined:
		return nil, r.failf("float of %s", describe(of))
	default:
		if f, ok := floatOf(of); ok {
			return f, nil
		}
	}
	return v[0], nil
}

func filterAbs(r *renderer, of value, a args) (value, error) {
	if err := r.none("abs", a); err != nil {
		return nil, err
	}
	if n, ok := intOf(of); ok && n != math.MinInt64 {
		return max(n, -n), nil
	}
	if f, ok := floatOf(of); ok {
		return math.Abs(f), nil
	}
	return nil, r.failf("abs of %s", describe(of))
}

func filterRound(r *renderer, of value, a args) (value, error) {
	v, _, err := r.take("round", a, "precision", "method")
	if err != nil {
		return nil, err
	}
	digits, err := r.intArg("round", v[0], 0)
	if err != nil {
		return nil, err
	}
	how, err := r.textArg("round", v[1], "common")
	if err != nil {
		return nil, err
	}
	if n, ok := intOf(of); ok && how == "common" && digits >= 0 {
		return n, nil
	}
	f, ok := floatOf(of)
	if !ok || digits < -300 || digits > 300 {
		return nil, r.failf("round of %s to %d digits", describe(of), digits)
	}
	unit := math.Pow(10, float64(digits))
	switch how {
	case "common":
		if digits >= 0 { // decimal rounding, halves to even, of the exact value
			f, err = strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(digits), 64), 64)
		} else {
			f = math.RoundToEven(f*unit) / unit
		}
	case "ceil":
		f = math.Ceil(f*unit) / unit
	case "floor":
		f = math.Floor(f*unit) / unit
	default:
		return nil, r.failf("round by %q", how)
	}
	return f, err
}

func filterIndent(r *renderer, of value, a args) (value, error) {
	v, _, err := r.take("indent", a, "width", "first", "blank")
	if err != nil {
		return nil, err
	}
	pad, isText := v[0].(string)
	if !isText {
		n, err := r.intArg("indent", v[0], 4)
		if err != nil {
			return nil, err
		}
		if n > 1000 {
			return nil, r.failf("indent by %d", n)
		}
		pad = strings.Repeat(" ", int(max(n, 0)))
	}
	s, err := r.str(of)
	if err != nil {
		return nil, err
	}
	if err := r.growList(len(s)); err != nil {
		return nil, err
	}
	lines := splitLines(s+"\n", false)
	if len(lines) > maxMade/(1+len(pad)) {
		return nil, r.limit("an indented text is too long")
	}
	if err := r.grow(len(s) + len(lines)*len(pad)); err != nil {
		return nil, err
	}
	for i := range lines {
		if i == 0 && !truth(v[1]) || i > 0 && lines[i] == "" && !truth(v[2]) {
			continue
		}
		lines[i] = pad + lines[i]
	}
	return strings.Join(lines, "\n"), nil
}

func filterToJSON(r *renderer, of value, a args) (value, error) {
	v, _, err := r.take("tojson", a, "ensure_ascii", "indent", "separators", "sort_keys")
	if err != nil {
		return nil, err
	}
	o := jsonOptions{item: ", ", key: ": ", ascii: truth(v[0]), sortKeys: truth(v[3])}
	switch pad := v[1].(type) {
	case nil:
	case string:
		o.indent, o.multi, o.item = pad, true, ","
	default:
		n, err := r.intArg("tojson", pad, 0)
		if err != nil {
			return nil, err
		}
		if n > 1000 {
			return nil, r.failf("tojson with an indent of %d", n)
		}
		o.indent, o.multi, o.item = strings.Repeat(" ", int(max(n, 0))), true, ","
	}
	if s, ok := v[2].(*seq); ok && len(s.items) == 2 {
		item, okItem := s.items[0].(string)
		key, okKey := s.items[1].(string)
		if !okItem || !okKey {
			return nil, r.failf("tojson with separators that are no texts")
		}
		o.item, o.key = item, key
	} else if v[2] != nil {
		return nil, r.failf("tojson with %s as separators", describe(v[2]))
	}
	var b strings.Builder
	if err := r.toJSON(&b, of, &o, 0); err != nil {
		return nil, err
	}
	return b.String(), r.grow(b.Len())
}
