// SPDX-License-Identifier: Apache-2.0

package tokenizer

import (
	"fmt"
	"strings"
	"time"
)

// maxTemplateBytes is ten times the largest chat template in use.
const maxTemplateBytes = 256 << 10

// TemplateVars are the special tokens that a model's tokenizer_config.json
// names; those that are "" are undefined in the template.
type TemplateVars struct {
	BOS string // bos_token
	EOS string // eos_token
	PAD string // pad_token
	UNK string // unk_token
}

// Template is a model's chat template, ready to render. It is safe for
// concurrent use.
//
// It is Jinja as transformers sets it up (sandboxed, no autoescaping,
// trim_blocks, lstrip_blocks), without what reads files: tags, filters and
// tests that are not there are refused by name when the template is parsed.
type Template struct {
	body  []stmt
	vars  TemplateVars
	names map[string]bool
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

// ParseTemplate reads a chat template. Errors are of type *TemplateError.
func ParseTemplate(src string, vars TemplateVars) (*Template, error) {
	if len(src) > maxTemplateBytes {
		return nil, &TemplateError{Msg: fmt.Sprintf("%d bytes is over the limit of %d", len(src), maxTemplateBytes)}
	}
	toks, err := lex(validUTF8(src))
	if err != nil {
		return nil, err
	}
	p := &parser{toks: toks, names: make(map[string]bool)}
	body, _, err := p.body()
	if err != nil {
		return nil, err
	}
	return &Template{body: body, vars: vars, names: p.names}, nil
}

// Uses tells whether the template reads a variable, such as
// "enable_thinking".
func (t *Template) Uses(variable string) bool { return t.names[variable] }

// Render returns the prompt of a chat. Errors are of type *TemplateError: a
// use of what is undefined, the template's own refusal (Raised), or a
// template that takes more time or memory than rendering can need.
func (t *Template) Render(in Chat) (string, error) {
	s := new(scope)
	size, err := in.bind(s)
	if err != nil {
		return "", &TemplateError{Msg: err.Error()}
	}
	for name, token := range map[string]string{
		"bos_token": t.vars.BOS, "eos_token": t.vars.EOS, "pad_token": t.vars.PAD, "unk_token": t.vars.UNK,
	} {
		if token != "" {
			s.set(name, token)
		}
	}
	r := &renderer{out: new(strings.Builder), steps: maxSteps + size, bytes: maxBytes + inputBytes*size, now: in.Now}
	if r.now == nil {
		r.now = time.Now
	}
	if err := r.exec(t.body, s.inner()); err != nil {
		return "", err
	}
	return r.out.String(), nil
}
