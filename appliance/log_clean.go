// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"fmt"
	"log/slog"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a record. They are promised in windhover(8).
const (
	valueBytes = 1 << 10  // of a value
	textBytes  = 4 << 10  // of the key text: a prompt, or a line of a library
	stackBytes = 8 << 10  // of the key stack
	lineBytes  = 16 << 10 // of all values together
	listValues = 64       // of a list
)

// cleaner makes the values of one record harmless, wherever they come from: none is
// longer than it may be, and none holds what a terminal, a pager or a reader of lines
// could take for more than text. Line breaks and tabs stay: every format writes them
// so that the record is one line.
type cleaner struct {
	room int // bytes that the record has left
}

// attr returns a with a value that is harmless. Durations become text, as people write
// them, in every format.
func (c *cleaner) attr(a slog.Attr) slog.Attr {
	most := valueBytes
	switch a.Key {
	case "text":
		most = textBytes
	case "stack":
		most = stackBytes
	}
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		v = slog.StringValue(c.text(v.String(), most))
	case slog.KindDuration:
		v = slog.StringValue(v.Duration().String())
	case slog.KindGroup:
		group := make([]slog.Attr, len(v.Group()))
		for i, in := range v.Group() {
			group[i] = c.attr(in)
		}
		v = slog.GroupValue(group...)
	case slog.KindAny:
		if list, ok := v.Any().([]string); ok {
			v = slog.AnyValue(c.list(list))
		} else if v.Any() != nil {
			v = slog.StringValue(c.text(fmt.Sprint(v.Any()), most))
		}
	}
	return slog.Attr{Key: a.Key, Value: v}
}

func (c *cleaner) list(list []string) []string {
	out := make([]string, 0, min(len(list), listValues+1))
	for i, s := range list {
		if i == listValues {
			return append(out, fmt.Sprintf("… %d more", len(list)-i))
		}
		out = append(out, c.text(s, valueBytes))
	}
	return out
}

// text cuts s, and puts U+FFFD in place of what is not UTF-8, of control characters
// other than line break and tab, and of what changes the direction or look of a text.
func (c *cleaner) text(s string, most int) string {
	most = min(most, c.room)
	s, cut := head(s, most)
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r < utf8.RuneSelf && r >= ' ' && r != 0x7f:
			return r
		case unicode.In(r, unicode.C, unicode.Zl, unicode.Zp):
			return utf8.RuneError
		}
		return r // of a byte that is not UTF-8 that is U+FFFD
	}, s)
	s, again := head(s, most) // U+FFFD is longer than what it replaces
	c.room -= len(s)
	if cut || again {
		s += "…"
	}
	return s
}

// head is s, or as many of its whole characters as fit into most bytes.
func head(s string, most int) (string, bool) {
	if len(s) <= most {
		return s, false
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most], true
}
