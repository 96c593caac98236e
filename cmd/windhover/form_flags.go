// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"windhover/control"
	"windhover/engine"
)

// formFlags are those of run and send that say what an answer has to be.
type formFlags struct {
	schema, tools, choice string
	object, logprobs      bool
	top                   int
}

func (f *formFlags) add(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringVar(&f.schema, "json-schema", "", "the answer is a value of this JSON schema: a file, or the schema itself, which begins with {")
	s.BoolVar(&f.object, "json-object", false, "the answer is a JSON object")
	s.StringVar(&f.tools, "tools", "", "functions that the model may call: a file with a JSON array of them, or the array itself; calls are printed, an object a line")
	s.StringVar(&f.choice, "tool-choice", "", "auto, none, required, or the name of the one to call (default: auto)")
	completes(cmd, "tool-choice", "auto", control.ToolsNone, control.ToolsRequired) // and names of tools
	s.BoolVar(&f.logprobs, "logprobs", false, "probabilities of the answer's tokens, with --json")
	s.IntVar(&f.top, "top-logprobs", 0, "and of so many others in the place of each, up to 20")
}

// fill puts the flags into a request, and checks them as the device would.
func (f *formFlags) fill(cmd *cobra.Command, r *control.Request) error {
	if f.logprobs && !wantJSON(cmd) {
		return usagef(cmd, "--logprobs go out with --json")
	}
	schema, err := jsonFlag(cmd, "json-schema", f.schema, "{")
	if err != nil {
		return err
	}
	tools, err := jsonFlag(cmd, "tools", f.tools, "[")
	if err != nil {
		return err
	}
	if tools != nil {
		if err := json.Unmarshal(tools, &r.Tools); err != nil {
			return usagef(cmd, "--tools: a JSON array of functions is wanted: %v", err)
		}
	}
	r.Schema, r.JSONObject, r.Logprobs, r.TopLogprobs = schema, f.object, f.logprobs, f.top
	switch f.choice {
	case "", "auto":
	case control.ToolsNone, control.ToolsRequired:
		r.ToolChoice = f.choice
	default:
		r.ToolChoice, r.ToolName = control.ToolsNamed, f.choice
	}
	if err := r.CheckForm(); err != nil {
		return usagef(cmd, "%s", err.Message)
	}
	return nil
}

// jsonFlag is the JSON that a flag holds or names a file of; nil for none.
func jsonFlag(cmd *cobra.Command, name, value string, opens string) ([]byte, error) {
	if value == "" {
		return nil, nil
	}
	data := []byte(value)
	if !strings.HasPrefix(strings.TrimSpace(value), opens) {
		f, err := os.Open(value)
		if err != nil {
			return nil, usagef(cmd, "--%s: %v", name, err)
		}
		defer func() { _ = f.Close() }() // read only
		if data, err = io.ReadAll(io.LimitReader(f, maxText)); err != nil {
			return nil, usagef(cmd, "--%s: %v", name, err)
		}
	}
	if data = bytes.TrimSpace(data); !json.Valid(data) {
		return nil, usagef(cmd, "--%s: %.80q is not JSON", name, value)
	}
	return data, nil
}

// localForm puts what a request says of the answer's form into one of the engine.
func localForm(r *control.Request, to *engine.Request) {
	to.Schema, to.JSONObject, to.Logprobs, to.TopLogprobs, to.MayThink = r.Schema, r.JSONObject, r.Logprobs, r.TopLogprobs, r.Think
	if r.ToolChoice != control.ToolsNone {
		to.Tools = r.Tools
	}
	to.MustCall, to.CallTool = r.ToolChoice == control.ToolsRequired || r.ToolChoice == control.ToolsNamed, r.ToolName
}

// calls shows calls of tools, one object a line.
func (s *screen) calls(list []control.ToolCall) error {
	for _, c := range list {
		line := struct {
			ID        string          `json:"id,omitempty"`
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}{c.ID, c.Name, json.RawMessage(c.Arguments)}
		if s.last != "" {
			if err := s.lineEnd(); err != nil {
				return err
			}
		}
		if err := printJSON(s.cmd, line); err != nil {
			return err
		}
		s.last = "\n"
	}
	return nil
}

// localCalls are the calls of an answer of the engine, in the words of the protocol.
func localCalls(list []engine.ToolCall) []control.ToolCall {
	var out []control.ToolCall
	for i, c := range list {
		out = append(out, control.ToolCall{Index: i, Name: c.Name, Arguments: c.Arguments})
	}
	return out
}
