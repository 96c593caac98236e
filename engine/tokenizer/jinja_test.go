// SPDX-License-Identifier: Apache-2.0

package tokenizer_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"windhover/engine/tokenizer"
)

// TestJinja compares small templates with what Jinja itself makes of them;
// testdata/jinja.py made the cases.
func TestJinja(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "jinja.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Vars  map[string]json.RawMessage `json:"vars"`
		Cases []struct {
			Template string  `json:"template"`
			Text     *string `json:"text"`
			Error    string  `json:"error"`
		} `json:"cases"`
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	vars := make(map[string]any)
	for k, v := range all.Vars {
		vars[k] = v
	}
	for _, c := range all.Cases {
		got, err := render(c.Template, tokenizer.Chat{Extra: vars})
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

func render(src string, in tokenizer.Chat) (string, error) {
	tpl, err := tokenizer.ParseTemplate(src, tokenizer.TemplateVars{})
	if err != nil {
		return "", err
	}
	return tpl.Render(in)
}
