// SPDX-License-Identifier: Apache-2.0

package jinja_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"windhover/engine/jinja"
)

// goldens are small templates, and what Jinja itself makes of them;
// testdata/cases.py made them.
type goldens struct {
	Vars  json.RawMessage `json:"vars"`
	Cases []struct {
		Template string  `json:"template"`
		Text     *string `json:"text"`
		Error    string  `json:"error"`
	} `json:"cases"`
}

func readGoldens(tb testing.TB) goldens {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "cases.json"))
	if err != nil {
		tb.Fatal(err)
	}
	var all goldens
	if err := json.Unmarshal(raw, &all); err != nil {
		tb.Fatal(err)
	}
	return all
}

func TestGoldens(t *testing.T) {
	all := readGoldens(t)
	vars := variables(t, string(all.Vars))
	for _, c := range all.Cases {
		got, err := render(c.Template, vars)
		switch {
		case c.Text == nil && err == nil:
			t.Errorf("%q gives %q, want an error like %q", c.Template, got, c.Error)
		case c.Text != nil && err != nil:
			t.Errorf("%q: %v, want %q", c.Template, err, *c.Text)
		case c.Text != nil && got != *c.Text:
			t.Errorf("%q gives\n%q, want\n%q", c.Template, got, *c.Text)
		}
	}
}

// variables makes variables of a JSON object.
func variables(tb testing.TB, object string) *jinja.Dict {
	tb.Helper()
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(object), &keys); err != nil {
		tb.Fatal(err)
	}
	vars := new(jinja.Dict)
	for key, raw := range keys {
		v, err := jinja.JSON(raw)
		if err != nil {
			tb.Fatal(err)
		}
		vars.Set(key, v)
	}
	return vars
}

func render(src string, vars *jinja.Dict) (string, error) {
	tpl, err := jinja.Parse(src)
	if err != nil {
		return "", err
	}
	return tpl.Render(vars, jinja.LimitsFor(0), nil)
}
