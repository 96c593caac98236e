// SPDX-License-Identifier: Apache-2.0

package grammar

import (
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

const (
	maxPatternBytes = 512
	maxPatternDepth = 16
)

// pattern takes the inside of a string that a regular expression describes from its
// beginning to its end: ^…$. Of regular expressions it takes literals, classes, the
// dot, \d and \w, groups, |, ?, *, + and counts. \s and \b are refused, as they are
// not the same everywhere, and so are flags, named groups and what Go's syntax does
// not have (looking around, references back).
func (c *compiler) pattern(text, at string, next int32) (int32, error) {
	switch {
	case len(text) > maxPatternBytes:
		return 0, problem(at, "%d bytes, at most %d", len(text), maxPatternBytes)
	case strings.Contains(text, `\s`), strings.Contains(text, `\S`), strings.Contains(text, "(?"), strings.Contains(text, "[:"),
		strings.Contains(text, `\p`), strings.Contains(text, `\P`), strings.Contains(text, `\Q`):
		return 0, problem(at, `\s, \p, \Q, (?…) and [:…:] are not supported`)
	}
	re, err := syntax.Parse(text, syntax.Perl&^syntax.UnicodeGroups)
	if err != nil {
		return 0, problem(at, "%v", err)
	}
	last := len(re.Sub) - 1
	if re.Op != syntax.OpConcat || re.Sub[0].Op != syntax.OpBeginText || re.Sub[last].Op != syntax.OpEndText {
		return 0, problem(at, "want ^…$: a pattern for the whole string")
	}
	re.Sub = re.Sub[1:last]
	return c.expression(re, at, 0, next)
}

// ends are the characters that a dot does not take.
var ends = []rune{'\n', '\r', '\u2028', '\u2029'}

func (c *compiler) expression(re *syntax.Regexp, at string, depth int, next int32) (int32, error) {
	if depth > maxPatternDepth {
		return 0, problem(at, "more than %d levels", maxPatternDepth)
	}
	if c.full {
		return next, nil
	}
	switch re.Op {
	case syntax.OpEmptyMatch:
		return next, nil
	case syntax.OpLiteral:
		for i := len(re.Rune) - 1; i >= 0; i-- {
			if re.Rune[i] == utf8.RuneError || re.Flags&syntax.FoldCase != 0 {
				return 0, problem(at, "a character that is none")
			}
			q := quote(string(re.Rune[i]))
			next = c.text(q[1:len(q)-1], next)
		}
		return next, nil
	case syntax.OpCharClass:
		return c.oneIn(runes(re.Rune).and(every), at, next)
	case syntax.OpAnyCharNotNL, syntax.OpAnyChar:
		return c.oneIn(every.without(ends), at, next)
	case syntax.OpCapture:
		return c.expression(re.Sub[0], at, depth+1, next)
	case syntax.OpConcat:
		for i := len(re.Sub) - 1; i >= 0; i-- {
			var err error
			if next, err = c.expression(re.Sub[i], at, depth+1, next); err != nil {
				return 0, err
			}
		}
		return next, nil
	case syntax.OpAlternate:
		var alts []int32
		for _, sub := range re.Sub {
			alt, err := c.expression(sub, at, depth+1, next)
			if err != nil {
				return 0, err
			}
			alts = append(alts, alt)
		}
		return c.split(alts...), nil
	case syntax.OpStar:
		return c.repeated(re, 0, unlimited, at, depth, next)
	case syntax.OpPlus:
		return c.repeated(re, 1, unlimited, at, depth, next)
	case syntax.OpQuest:
		return c.repeated(re, 0, 1, at, depth, next)
	case syntax.OpRepeat:
		return c.repeated(re, int32(re.Min), int32(re.Max), at, depth, next)
	}
	return 0, problem(at, "%s is not supported within a pattern", re)
}

func (c *compiler) oneIn(set runes, at string, next int32) (int32, error) {
	one := c.written(set, next)
	if one < 0 {
		return 0, problem(at, "a class without characters")
	}
	return one, nil
}

// repeated takes an expression several times. One that can be empty may be left out
// anyway, so that only what is not counts.
func (c *compiler) repeated(re *syntax.Regexp, least, most int32, at string, depth int, next int32) (int32, error) {
	sub := re.Sub[0]
	if empty(sub) {
		return 0, problem(at, "%s repeats what can be empty", re)
	}
	body, err := c.expression(sub, at, depth+1, c.ret)
	if err != nil {
		return 0, err
	}
	return c.loop(body, least, most, next), nil
}

// empty tells whether an expression takes the empty string.
func empty(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpStar, syntax.OpQuest:
		return true
	case syntax.OpRepeat:
		return re.Min == 0 || empty(re.Sub[0])
	case syntax.OpPlus, syntax.OpCapture:
		return empty(re.Sub[0])
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if !empty(sub) {
				return false
			}
		}
		return true
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			if empty(sub) {
				return true
			}
		}
	}
	return false
}
