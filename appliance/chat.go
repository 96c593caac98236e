// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"encoding/json"

	"windhover/control"
	"windhover/engine/tokenizer"
)

// templateMessage turns a message off the wire into one for the chat template. Both
// speak the JSON of Hugging Face's templates.
func templateMessage(m control.Message) (tokenizer.Message, error) {
	for _, p := range m.Content.Parts {
		if p.Type != "text" {
			return tokenizer.Message{}, control.Errorf(control.Unsupported, "a message part of type %q is not supported by this build yet: send text", p.Type)
		}
	}
	var out tokenizer.Message
	raw, err := json.Marshal(m)
	if err != nil {
		return out, control.Errorf(control.BadRequest, "message of role %q: %v", m.Role, err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, control.Errorf(control.BadRequest, "message of role %q: %v", m.Role, err)
	}
	return out, nil
}
