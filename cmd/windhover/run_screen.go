// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"windhover/appliance"
	"windhover/control"
	"windhover/engine"
)

// screen shows answers as they come: text on stdout, thinking and speed on
// stderr, or with --json one object an answer.
type screen struct {
	cmd      *cobra.Command
	out, err io.Writer
	json     bool
	person   bool // somebody types and reads
	dim      bool // thinking can be shown dimmed

	thinking bool   // the last thing shown was thinking
	last     string // the last piece of text
}

func newScreen(cmd *cobra.Command) *screen {
	return &screen{
		cmd: cmd, out: cmd.OutOrStdout(), err: cmd.ErrOrStderr(), json: wantJSON(cmd),
		person: isTerminal(cmd.InOrStdin()) && isTerminal(cmd.OutOrStdout()), dim: isTerminal(cmd.ErrOrStderr()),
	}
}

func (s *screen) note(format string, a ...any) { note(s.cmd, format, a...) }

func (s *screen) welcome(info engine.Info) {
	name := info.Name
	if name == "" {
		name = info.Path
	}
	s.note("%s: %s, %d %s, context %d, ready in %d ms; /clear forgets, Ctrl-D ends", name, info.Layout,
		info.Threads, plural(info.Threads, "thread"), info.Context, info.LoadTime.Milliseconds())
}

func (s *screen) prompt() {
	if s.person && !s.json {
		_, _ = fmt.Fprint(s.out, "> ") // the answer behind it shows whether it can be written
	}
}

func (s *screen) newline() {
	if s.person && !s.json {
		_, _ = fmt.Fprintln(s.out) // as in prompt
	}
}

func (s *screen) begin() { s.thinking, s.last = false, "" }

// event shows a piece of an answer.
func (s *screen) event(e engine.Event) error {
	if e.Delta == nil || s.json {
		return nil
	}
	return s.piece(e.Delta.Text, e.Delta.Thinking)
}

func (s *screen) piece(text, thinking string) error {
	if s.json {
		return nil
	}
	if thinking != "" {
		if s.dim {
			thinking = "\x1b[2m" + thinking + "\x1b[0m"
		}
		s.thinking = true
		_, _ = fmt.Fprint(s.err, thinking) // beside the answer
	}
	if text == "" {
		return nil
	}
	s.endThinking()
	s.last = text
	_, err := io.WriteString(s.out, text)
	return err
}

func (s *screen) endThinking() {
	if s.thinking {
		_, _ = fmt.Fprint(s.err, "\n\n") // beside the answer
		s.thinking = false
	}
}

// abort ends the line of an answer that failed.
func (s *screen) abort() {
	s.endThinking()
	if !s.json && s.last != "" {
		_, _ = fmt.Fprintln(s.out) // the error is what counts now
	}
}

// answerDoc is an answer as JSON.
type answerDoc struct {
	Text     string         `json:"text"`
	Thinking string         `json:"thinking"`
	Finish   string         `json:"finish"`
	Tokens   []int32        `json:"tokens"`
	Usage    control.Usage  `json:"usage"`
	Timing   control.Timing `json:"timing"`
	Seed     uint64         `json:"seed"`
	formDoc
}

// formDoc is what an answer has beside its text, as JSON.
type formDoc struct {
	ToolCalls   []control.ToolCall     `json:"tool_calls,omitempty"`
	BadToolCall bool                   `json:"tool_call_malformed,omitempty"`
	Logprobs    []control.TokenLogprob `json:"logprobs,omitempty"`
}

// finish closes an answer: a line end, and how fast it was.
func (s *screen) finish(m *engine.Model, r *engine.Result, seed uint64) error {
	t := control.Timing{
		TTFTMS: r.Timing.TTFT.Milliseconds(), TotalMS: r.Timing.Total.Milliseconds(),
		PrefillTPS: tenth(r.Timing.PrefillTPS), DecodeTPS: tenth(r.Timing.DecodeTPS),
	}
	u := appliance.Usage(r.Usage)
	calls, finish := localCalls(r.ToolCalls), r.Finish
	if finish == engine.FinishStop && len(calls) > 0 {
		finish = control.FinishCalls
	}
	if s.json {
		form := formDoc{calls, r.BadToolCall, appliance.Logprobs(m.Tokenizer(), r.Logprobs)}
		return printJSON(s.cmd, answerDoc{r.Text, r.Thinking, finish, append([]int32{}, r.Tokens...), u, t, seed, form})
	}
	s.endThinking()
	if err := s.calls(calls); err != nil {
		return err
	}
	if err := s.lineEnd(); err != nil {
		return err
	}
	s.note("%s", speed(u, t, r.Timing.TTFT, r.Finish))
	return nil
}

// lineEnd ends the line of an answer, unless it has ended it itself.
func (s *screen) lineEnd() error {
	if n := len(s.last); n > 0 && s.last[n-1] == '\n' {
		return nil
	}
	_, err := fmt.Fprintln(s.out)
	return err
}

// speed is the closing line of an answer.
func speed(u control.Usage, t control.Timing, ttft time.Duration, finish string) string {
	text := fmt.Sprintf("%d %s, first after %.2f s", u.Completion, plural(u.Completion, "token"), ttft.Seconds())
	if t.DecodeTPS > 0 {
		text += fmt.Sprintf(", %.1f tok/s", t.DecodeTPS)
	}
	text += fmt.Sprintf("; prompt of %d", u.Prompt)
	if u.Cached > 0 {
		text += fmt.Sprintf(", %d of them known", u.Cached)
	}
	if u.Pictures > 0 {
		text += fmt.Sprintf(", %d %s", u.Pictures, plural(u.Pictures, "picture"))
	}
	if u.PicturesKnown > 0 {
		text += fmt.Sprintf(" (%d known)", u.PicturesKnown)
	}
	if t.PrefillTPS > 0 {
		text += fmt.Sprintf(", %.0f tok/s", t.PrefillTPS)
	}
	switch finish {
	case engine.FinishLength:
		text += "; cut at --max-tokens"
	case engine.FinishCancel:
		text += "; stopped"
	case engine.FinishDeadline:
		text += "; out of time"
	}
	return text
}

func tenth(f float64) float64 { return float64(int64(f*10+0.5)) / 10 }

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// several is "1 block", "2 blocks" …
func several(n int, noun string) string { return fmt.Sprintf("%d %s", n, plural(n, noun)) }

// agree is the verb of so many things.
func agree(n int, verb string) string {
	if n == 1 {
		return verb + "s"
	}
	return verb
}
