// SPDX-License-Identifier: Apache-2.0

package web

import "encoding/json"

// elsewhere are fields in which other servers take a form of the answer. An answer
// without it would look as if it had been kept.
type elsewhere struct {
	Grammar    json.RawMessage `json:"grammar"`
	JSONSchema json.RawMessage `json:"json_schema"`
	Format     json.RawMessage `json:"format"`
	Structured json.RawMessage `json:"structured_outputs"`
	Choice     json.RawMessage `json:"guided_choice"`
	Guided     json.RawMessage `json:"guided_json"`
	Regex      json.RawMessage `json:"guided_regex"`
	CFG        json.RawMessage `json:"guided_grammar"`
}

// check refuses what is given, by name.
func (e *elsewhere) check() error {
	for _, f := range []struct {
		name string
		raw  json.RawMessage
	}{
		{"grammar", e.Grammar}, {"json_schema", e.JSONSchema}, {"format", e.Format}, {"structured_outputs", e.Structured},
		{"guided_choice", e.Choice}, {"guided_json", e.Guided}, {"guided_regex", e.Regex}, {"guided_grammar", e.CFG},
	} {
		if given(f.raw) {
			return unsupported(f.name, "%s is not supported: use response_format with a JSON schema", f.name)
		}
	}
	return nil
}

// given tells whether a field is there and says something.
func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
