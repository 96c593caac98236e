// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"windhover/control"
)

// maxRequestText is the most of a text that is sent: brokers and devices take no more.
const maxRequestText = 120 << 10

func newSend() *cobra.Command {
	var flags sampling
	var broker brokerFlags
	var model string
	var pictures pictureFlags
	var embed bool
	var dimensions int
	var answering []string // flags that say nothing with --embed
	cmd := &cobra.Command{
		Use:   "send PROMPT",
		Short: "Ask an appliance over MQTT and print the answer as it comes",
		Long: `Publishes a question to an appliance and prints its answer as it streams in. The
default broker is the one inside the appliance on this machine. PROMPT "-" reads it
from standard input. A closing line with the speed goes to standard error.

Pictures go with the question; one that the message has no room for is made smaller.
--json-schema and --json-object hold the answer to a form, token by token; --tools
declares functions, and calls of them are printed in place of text.

--embed asks for the embeddings of one or several texts, and prints each as a JSON array
of numbers on a line.

With --json: one object, {"id","text","thinking","finish","usage","timing","model"}, and
with --embed {"id","embeddings","usage","timing","model"}.`,
		Example: `  windhover send 'Why is the sky blue?'
  windhover send --broker mqtts://broker.example:8883 --device edge1 \
      --username app1 --password-file secret 'Turn this into a haiku: …'
  windhover send --image photo.jpg 'What is in this picture?'
  windhover send --json-schema person.json 'Ada Lovelace was born in 1815.'
  windhover send --tools tools.json --tool-choice required 'Switch the light on.'
  windhover send --raw --temperature 0 --max-tokens 8 'The capital of France is'
  windhover send --embed --model qwen3-embedding-0.6b 'pump 3 runs dry'`,
		Args: args(func(cmd *cobra.Command, a []string) error {
			if embed {
				return cobra.MinimumNArgs(1)(cmd, a)
			}
			return cobra.ExactArgs(1)(cmd, a)
		}),
		RunE: func(cmd *cobra.Command, a []string) error {
			if embed {
				if err := idle(cmd, "with --embed", answering...); err != nil {
					return err
				}
				return sendEmbed(cmd, &broker, model, dimensions, a)
			}
			if err := idle(cmd, "without --embed", "dimensions"); err != nil {
				return err
			}
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
				if text, err = readAll(cmd, maxRequestText); err != nil {
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
	pictures.add(cmd, "to ask about, or import:NAME for a file in import/ of the appliance")
	cmd.Flags().VisitAll(func(f *pflag.Flag) { answering = append(answering, f.Name) })
	broker.add(cmd)
	cmd.Flags().StringVar(&model, "model", "", "model to ask (default: the appliance's default)")
	cmd.Flags().BoolVar(&embed, "embed", false, "ask for the embeddings of the text, or of several")
	addDimensionsFlag(cmd, &dimensions)
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
			waiting(cmd, reply.Accepted)
		case control.TypeDelta:
			form.add(reply.Delta)
			return s.piece(reply.Delta.Text, reply.Delta.Thinking)
		}
		return nil
	})
	if err != nil {
		s.abort()
		return notAnswered(cmd, err, broker)
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
		return errOtherVersion
	}
	s.note("%s", speed(*d.Usage, *d.Timing, time.Duration(d.Timing.TTFTMS)*time.Millisecond, d.Finish))
	return nil
}
