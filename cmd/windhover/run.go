// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"math/rand/v2"

	"github.com/spf13/cobra"

	"windhover/control"
	"windhover/engine"
)

func newRun() *cobra.Command {
	var flags sampling
	var load loading
	var pictures pictureFlags
	cmd := &cobra.Command{
		Use:   "run MODEL.vqf [PROMPT]",
		Short: "Chat with a model on this machine",
		Long: `Loads a model and answers PROMPT, or chats when there is none: a line is a
question, /image FILE shows a picture with the next one, /clear forgets the
conversation, Ctrl-C stops an answer, Ctrl-D ends.
PROMPT "-" reads it from standard input. The answer streams to standard output,
speed goes to standard error.

--image and --video show pictures with the first question, where the model has a
vision tower.

--json-schema and --json-object hold the answer to a form, token by token; --tools
declares functions, and calls of them are printed in place of text.

With --json each answer is one JSON object a line.`,
		Example: `  windhover run model.vqf
  windhover run model.vqf 'Why is the sky blue?'
  windhover run model.vqf --raw --temperature 0 --max-tokens 8 'The capital of France is'
  windhover run model.vqf --image photo.jpg 'What is in this picture?'
  windhover run model.vqf --json-schema person.json 'Ada Lovelace was born in 1815.'
  git diff | windhover run model.vqf --system 'Summarise in one line.' -`,
		Args: models(1, cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, a []string) error {
			if err := flags.check(cmd); err != nil {
				return err
			}
			if err := pictures.check(cmd); err != nil {
				return err
			}
			if flags.raw && pictures.given() {
				return usagef(cmd, "--image and --video are for chats: leave --raw out")
			}
			r, err := flags.request(cmd)
			if err != nil {
				return err
			}
			if len(r.Tools) > 0 && len(a) == 1 {
				return usagef(cmd, "--tools needs a PROMPT: nobody carries out calls in a chat")
			}
			m, err := load.open(cmd, a[0])
			if err != nil {
				return err
			}
			err = chatWith(cmd, m, &flags, r, &pictures, a[1:])
			return errors.Join(err, m.Close())
		},
	}
	flags.add(cmd, "most tokens of an answer (default: 1024, less where the context is full)")
	f := cmd.Flags()
	load.add(cmd)
	f.IntVar(&load.opt.Context, "context", 0, "tokens of a conversation (default: what the file names and the memory allows)")
	pictures.add(cmd, "to ask about")
	return cmd
}

// chatWith answers the one prompt there is, or chats.
func chatWith(cmd *cobra.Command, m *engine.Model, flags *sampling, r *control.Request, pictures *pictureFlags, prompts []string) error {
	c := &conversation{
		m: m, think: flags.think, raw: flags.raw, system: flags.system, request: flags.local(r, m, rand.Uint64()),
		screen: newScreen(cmd),
	}
	if !flags.raw && m.Template() == nil {
		reason := "has no chat template"
		if e := m.Info().TemplateErr; e != "" {
			reason = "has a chat template that cannot be used: " + e
		}
		return errors.New("the model " + reason + ": --raw continues a text without one")
	}
	c.show(cmd.Context())
	defer func() { c.forget() }()
	var err error
	if c.shown, err = pictures.load(c.shows, m); err != nil {
		return err
	}
	if len(prompts) == 0 {
		return c.interact(cmd)
	}
	text := prompts[0]
	if text == "-" {
		if text, err = readAll(cmd, maxText); err != nil {
			return err
		}
	}
	res, err := c.ask(cmd.Context(), text)
	if err == nil && res.Finish == engine.FinishCancel {
		err = errSilent // the closing line says so
	}
	return err
}
