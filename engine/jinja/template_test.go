// SPDX-License-Identifier: Apache-2.0

package jinja_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"windhover/engine/jinja"
)

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		src, want string
		line      int
		raised    bool
	}{
		{"a\n{{ raise_exception('roles must alternate') }}", "roles must alternate", 2, true},
		{"\n\n{{ missing.x }}", `"missing" is undefined`, 3, false},
		{"{% if 1 %}\n{{ 'a' | nosuch }}{% endif %}", `filter "nosuch" is not supported`, 2, false},
		{"\n{{ 1 is nosuch }}", `test "nosuch" is not supported`, 2, false},
		{"{% block x %}{% endblock %}", `tag "block" is not supported`, 1, false},
		{"{% for x in [1] recursive %}{% endfor %}", "recursive", 1, false},
		{"\n{% call m() %}{% endcall %}", `tag "call" is not supported`, 2, false},
		{"{{ f(*x) }}", "* and **", 1, false},
		{"\n\n\n{{ 1 +", "tag without end", 4, false},
		{"{% if 1 %}", `"endif" is missing`, 1, false},
	} {
		_, err := render(c.src, new(jinja.Dict))
		var je *jinja.Error
		if !errors.As(err, &je) {
			t.Errorf("%q: error %v, want an Error", c.src, err)
			continue
		}
		if !strings.Contains(je.Msg, c.want) || je.Line != c.line || je.Raised != c.raised {
			t.Errorf("%q: %+v, want line %d, raised %v and %q", c.src, je, c.line, c.raised, c.want)
		}
		if msg := err.Error(); !strings.HasPrefix(msg, "jinja: ") || !strings.Contains(msg, c.want) {
			t.Errorf("%q: error %q", c.src, msg)
		}
	}
}

func TestJSON(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"b":1,"a":2,"b":{"c":[]}}`, `{'b': {'c': []}, 'a': 2}`},
		{` [ 1 , 2.0 , 1e2 , -0 , 12345678901234567890123 ] `, "[1, 2.0, 100.0, 0, 12345678901234567890123]"},
		{`["\u00e9\ud83d\ude00\n", null, true]`, `['é😀\n', None, True]`},
		{`"\\ud83d"`, `\ud83d`},
		{strings.Repeat("[", 65) + strings.Repeat("]", 65), strings.Repeat("[", 65) + strings.Repeat("]", 65)},
	} {
		v, err := jinja.JSON([]byte(c.in))
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		vars := new(jinja.Dict)
		vars.Set("v", v)
		if got, err := render("{{ v }}", vars); err != nil || got != c.want {
			t.Errorf("%s gives %s (%v), want %s", c.in, got, err, c.want)
		}
	}
	for _, in := range []string{
		"", "{", "[1,]", `{"a":1e}`, "1 2", "nul", `"\ud83d"`, `"\ude00\ud83d"`, `"\ud83d\u0041"`, "\"\xff\"",
		strings.Repeat("[", 66) + strings.Repeat("]", 66), strings.Repeat("[", 100_000), strings.Repeat("9", 5000),
	} {
		if _, err := jinja.JSON([]byte(in)); err == nil || !strings.HasPrefix(err.Error(), "invalid ") {
			t.Errorf("%.40q: error %v, want one of invalid JSON", in, err)
		}
	}
}

func TestValues(t *testing.T) {
	inner := new(jinja.Dict)
	inner.Set("k\xff", jinja.Value{})
	vars := new(jinja.Dict)
	vars.Set("l", jinja.List([]jinja.Value{jinja.Int(-3), jinja.Float(3), jinja.Bool(true), jinja.Text("a\xffb"), inner.Value()}))
	got, err := render("{{ l }} {{ l[3][1] }} é\xff", vars)
	if want := "[-3, 3.0, True, 'a\uFFFDb', {'k\uFFFD': None}] \uFFFD é\uFFFD"; err != nil || got != want {
		t.Errorf("Render = %q, %v, want %q", got, err, want)
	}
}

func TestClock(t *testing.T) {
	tpl, err := jinja.Parse("{{ strftime_now('%d %b %Y') }}")
	if err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return time.Date(2026, 7, 9, 0, 0, 0, 0, time.UTC) }
	if got, err := tpl.Render(new(jinja.Dict), jinja.LimitsFor(0), now); err != nil || got != "09 Jul 2026" {
		t.Errorf("Render = %q, %v, want 09 Jul 2026", got, err)
	}
}

// TestLimits: a rendering ends where its limits do, and input raises them.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		src    string
		limits jinja.Limits
		want   string // of the error
	}{
		{"{% for i in range(10) %}{{ i }}{% endfor %}", jinja.Limits{Steps: 1000, Bytes: 1000}, ""},
		{"{% for i in range(10) %}{{ i }}{% endfor %}", jinja.Limits{Steps: 10, Bytes: 1000}, "too many steps"},
		{"{{ 'a' * 1001 }}", jinja.Limits{Steps: 1000, Bytes: 1000}, "too much text"},
		{"{{ 'a' * 40000000 }}", jinja.LimitsFor(0), "too much text"},
		{"{{ 'a' * 40000000 }}", jinja.LimitsFor(1 << 20), ""},
		{"a", jinja.Limits{}, "too many steps"},
	} {
		tpl, err := jinja.Parse(c.src)
		if err != nil {
			t.Fatal(err)
		}
		_, err = tpl.Render(new(jinja.Dict), c.limits, nil)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s by %+v: error %v, want %q", c.src, c.limits, err, c.want)
		}
	}
}
