// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"windhover/internal/testmodel"
)

// Calls of a strict tool keep to its parameters, over MQTT and over HTTP, in pieces and
// whole; what cannot be held is refused alike.
func TestStrictToolsOverBoth_P260_P262(t *testing.T) {
	b := startBox(t, nil)
	b.drop(t, "m.vqf", tinyModel(t, func(c *testmodel.Config) { *c = testmodel.Caller("lamp", `{"on": "perhaps"}`) }))
	b.ready(t, "m")
	b.connected(t)
	c := b.client(t, "me")
	lamp := func(strict string) string {
		return `{"type":"function","function":{"name":"lamp",` + strict + `"parameters":{"type":"object","properties":{"on":{"type":"boolean"},"room":{"enum":["ü\"<",null]}},"required":["on","room"],"additionalProperties":false}}}`
	}
	const date = `{"type":"function","function":{"name":"log","parameters":{"type":"object","properties":{"at":{"format":"date"}}}}}`
	held := `"tools":[` + date + `,` + lamp(`"strict":true,`) + `]`
	for _, tt := range []struct {
		alike
		text string
		held int // calls that keep to the parameters
		free int // others
	}{
		{alike{name: "as the model writes it", both: `"max_tokens":50,"tools":[` + lamp("") + `]`}, "Sure.Done.", 0, 1},
		{alike{name: "not strict", both: `"max_tokens":50,"tools":[` + lamp(`"strict":false,`) + `]`}, "Sure.Done.", 0, 1},
		{alike{name: "none is to be called", both: `"max_tokens":2,"tool_choice":"none",` + held}, "Sure. <tool_call>", 0, 0},
		{alike{name: "strict", both: `"max_tokens":200,` + held}, "Sure.Done.", 1, 0},
		{alike{name: "auto", both: `"max_tokens":200,"tool_choice":"auto",` + held}, "Sure.Done.", 1, 0},
		{alike{name: "with probabilities", both: `"max_tokens":200,"logprobs":true,"top_logprobs":2,` + held}, "Sure.Done.", 1, 0},
		{alike{name: "the first alone", both: `"max_tokens":200,"parallel_tool_calls":false,` + held}, "Sure.", 1, 0},
		{alike{name: "behind thinking", both: `"max_tokens":200,"think":true,` + held}, "Sure.Done.", 1, 0},
		{alike{name: "behind short thinking", both: `"max_tokens":200,"think":true,"think_budget":2,` + held}, "Sure.Done.", 1, 0},
		{alike{name: "cut off", both: `"max_tokens":9,` + held}, "Sure. <tool_call>\n{\"name", 0, 0},
		{alike{name: "stopped", both: `"max_tokens":200,"stop":["lamp"],` + held}, "Sure. <tool_call>\n{\"name\": \"", 0, 0},
		{alike{name: "it must be called", both: `"max_tokens":200,"tool_choice":"required","tools":[` + lamp(`"strict":true,`) + `]`}, "", 1, 0},
		{alike{name: "keyword", both: `"tools":[` + lamp("") + `,` + strings.Replace(date, `"parameters"`, `"strict":true,"parameters"`, 1) + `]`,
			code: "bad_request", reason: `schema: at /tools/1/properties/at: keyword "format" is not supported`}, "", 0, 0},
		{alike{name: "no truth value", both: `"tools":[` + lamp(`"strict":"yes",`) + `]`, code: "bad_request", reason: `tools[0]: strict "yes": true or false`}, "", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.hold(t, b, c)
			if got.Text != tt.text || len(got.Calls) != tt.held+tt.free {
				t.Fatalf("got %+v, want %q", got, tt.text)
			}
			finish := "stop"
			switch {
			case tt.code != "":
				finish = ""
			case len(got.Calls) > 0:
				finish = "tool_calls"
			case tt.name == "cut off" || tt.name == "none is to be called":
				finish = "length"
			}
			if got.Finish != finish {
				t.Errorf("finish %q, want %q", got.Finish, finish)
			}
			for i, call := range got.Calls {
				if err := lampTakes(call); (err == nil) != (i < tt.held) {
					t.Errorf("call %+v: %v", call, err)
				}
			}
		})
	}
}

// lampTakes holds a call against what lamp takes, by hand.
func lampTakes(c toldCall) error {
	var args map[string]any
	if err := json.Unmarshal([]byte(c.Arguments), &args); err != nil {
		return err
	}
	_, on := args["on"].(bool)
	room, said := args["room"]
	if c.Name != "lamp" || !on || !said || room != nil && room != `ü"<` || len(args) != 2 {
		return fmt.Errorf("%s %s", c.Name, c.Arguments)
	}
	return nil
}
