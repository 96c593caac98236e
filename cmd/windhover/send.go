// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"windhover/appliance"
	"windhover/control"
)

func newSend() *cobra.Command {
	var flags sampling
	var broker brokerFlags
	var model string
	var pictures pictureFlags
	cmd := &cobra.Command{
		Use:   "send PROMPT",
		Short: "Ask an appliance over MQTT and print the answer as it comes",
		Long: `Publishes a question to an appliance and prints its answer as it streams in. The
default broker is the one inside the appliance on this machine. PROMPT "-" reads it
from standard input. A closing line with the speed goes to standard error.

Pictures go with the question; one that the message has no room for is made smaller.
--json-schema and --json-object hold the answer to a form, token by token; --tools
declares functions, and calls of them are printed in place of text.

With --json: one object, {"id","text","thinking","finish","usage","timing","model"}.`,
		Example: `  windhover send 'Why is the sky blue?'
  windhover send --broker mqtts://broker.example:8883 --device edge1 \
      --username app1 --password-file secret 'Turn this into a haiku: …'
  windhover send --image photo.jpg 'What is in this picture?'
  windhover send --json-schema person.json 'Ada Lovelace was born in 1815.'
  windhover send --tools tools.json --tool-choice required 'Switch the light on.'
  windhover send --raw --temperature 0 --max-tokens 8 'The capital of France is'`,
		Args: args(cobra.ExactArgs(1)),
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
			text := a[0]
			if text == "-" {
				var err error
				if text, err = readAll(cmd, 120<<10); err != nil {
					return err
				}
			}
			r, err := flags.request(cmd)
			if err != nil {
				return err
			}
			if r.Model = model; flags.raw {
				r.Prompt = text
			} else {
				parts, err := pictures.parts(cmd, len(flags.system)+len(text))
				if err != nil {
					return err
				}
				r.Messages = chatMessages(flags.system, text, parts)
			}
			return send(cmd, &broker, r)
		},
	}
	flags.add(cmd, "most tokens of the answer (default: 256)")
	broker.add(cmd)
	cmd.Flags().StringVar(&model, "model", "", "model to ask (default: the appliance's default)")
	pictures.add(cmd, "to ask about, or import:NAME for a file in import/ of the appliance")
	return cmd
}

// chatMessages is a question, behind its pictures.
func chatMessages(system, text string, pictures []control.Part) []control.Message {
	var list []control.Message
	if system != "" {
		list = append(list, control.Message{Role: "system", Content: control.Content{Text: system}})
	}
	content := control.Content{Text: text}
	if len(pictures) > 0 {
		content = control.Content{Parts: append(pictures, control.Part{Type: "text", Text: text})}
	}
	return append(list, control.Message{Role: "user", Content: content})
}

// sendDoc is what send prints with --json.
type sendDoc struct {
	ID       string            `json:"id"`
	Text     string            `json:"text"`
	Thinking string            `json:"thinking"`
	Finish   string            `json:"finish"`
	Usage    *control.Usage    `json:"usage"`
	Timing   *control.Timing   `json:"timing"`
	Model    *control.ModelRef `json:"model"`
	formDoc
}

// add takes what a delta has of it. Long calls come in pieces.
func (f *formDoc) add(d *control.Delta) {
	f.Logprobs = append(f.Logprobs, d.Logprobs...)
	switch c := d.ToolCall; {
	case c == nil:
	case c.Index < len(f.ToolCalls):
		f.ToolCalls[c.Index].Arguments += c.Arguments
	default:
		f.ToolCalls = append(f.ToolCalls, *c)
	}
}

// send asks and shows the answer.
func send(cmd *cobra.Command, broker *brokerFlags, r *control.Request) error {
	client, err := broker.dial(cmd)
	if err != nil {
		return err
	}
	defer client.Close()
	s := newScreen(cmd)
	var form formDoc
	a, err := client.Send(cmd.Context(), r, func(reply *control.Reply) error {
		switch reply.Type {
		case control.TypeAccepted:
			if n := reply.Accepted.Queue; n > 0 {
				s.note("waiting: %d %s before this one", n, plural(n, "request"))
			}
		case control.TypeDelta:
			form.add(reply.Delta)
			return s.piece(reply.Delta.Text, reply.Delta.Thinking)
		}
		return nil
	})
	if err != nil {
		s.abort()
		if cmd.Context().Err() != nil {
			s.note("stopped")
			return errSilent
		}
		return appliance.AnswerError(err, broker.broker)
	}
	d := a.Done
	form.BadToolCall = d.BadToolCall
	if s.json {
		return printJSON(cmd, sendDoc{a.ID, a.Text, a.Thinking, d.Finish, d.Usage, d.Timing, d.Model, form})
	}
	s.endThinking()
	if err := s.calls(form.ToolCalls); err != nil {
		return err
	}
	if err := s.lineEnd(); err != nil {
		return err
	}
	if d.Usage == nil || d.Timing == nil {
		return errors.New("the appliance sent no usage and timing: it speaks another version")
	}
	s.note("%s", speed(*d.Usage, *d.Timing, time.Duration(d.Timing.TTFTMS)*time.Millisecond, d.Finish))
	return nil
}
