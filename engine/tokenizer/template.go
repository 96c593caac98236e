// SPDX-License-Identifier: Apache-2.0

package tokenizer

import (
	"errors"
	"fmt"

	"windhover/engine/jinja"
)

// TemplateVars are the special tokens that a model's tokenizer_config.json
// names; those that are "" are undefined in the template.
type TemplateVars struct {
	BOS string // bos_token
	EOS string // eos_token
	PAD string // pad_token
	UNK string // unk_token
}

// Template is a model's chat template, ready to render. It is safe for
// concurrent use. What of Jinja there is, package jinja says.
type Template struct {
	jinja *jinja.Template
	vars  TemplateVars
}

// TemplateError says what is wrong with a template, or what went wrong while
// rendering it.
type TemplateError struct {
	Line   int    // of the template, from 1; 0 where unknown
	Msg    string // what
	Raised bool   // the template itself refused the chat, by raise_exception
}

func (e *TemplateError) Error() string {
	msg := e.Msg
	if e.Raised {
		msg = "the model's template refuses the chat: " + msg
	}
	if e.Line == 0 {
		return "tokenizer: chat template: " + msg
	}
	return fmt.Sprintf("tokenizer: chat template: line %d: %s", e.Line, msg)
}

// templateError makes a *TemplateError of an error of package jinja.
func templateError(err error) error {
	if e, ok := errors.AsType[*jinja.Error](err); ok {
		return (*TemplateError)(e)
	}
	return &TemplateError{Msg: err.Error()}
}

// ParseTemplate reads a chat template. Errors are of type *TemplateError.
func ParseTemplate(src string, vars TemplateVars) (*Template, error) {
	t, err := jinja.Parse(validUTF8(src))
	if err != nil {
		return nil, templateError(err)
	}
	return &Template{t, vars}, nil
}

// Uses tells whether the template reads a variable, such as
// "enable_thinking".
func (t *Template) Uses(variable string) bool { return t.jinja.Uses(variable) }

// Render returns the prompt of a chat. Errors are of type *TemplateError: a
// use of what is undefined, the template's own refusal (Raised), or a
// template that takes more time or memory than rendering can need.
func (t *Template) Render(in Chat) (string, error) {
	vars, size, err := in.variables()
	if err != nil {
		return "", templateError(err)
	}
	for name, token := range map[string]string{
		"bos_token": t.vars.BOS, "eos_token": t.vars.EOS, "pad_token": t.vars.PAD, "unk_token": t.vars.UNK,
	} {
		if token != "" {
			vars.Set(name, jinja.Text(validUTF8(token)))
		}
	}
	out, err := t.jinja.Render(vars, jinja.LimitsFor(size), in.Now)
	if err != nil {
		return "", templateError(err)
	}
	return out, nil
}
