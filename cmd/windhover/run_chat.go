// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"windhover/appliance"
	"windhover/engine"
	"windhover/engine/tokenizer"
)

// defaultAnswer is the most tokens of an answer where no flag says otherwise.
const defaultAnswer = 1024

// conversation is a chat with a loaded model. What it has in common with the last
// question is not computed again: the engine sees to that.
type conversation struct {
	m       *engine.Model
	request engine.Request // all but the tokens
	think   bool
	raw     bool // each question is a text of its own, to be continued
	system  string
	history []turn
	shown   []*engine.Picture // with the next question
	shows   context.Context   // that of the pictures: they are let go when it ends
	forget  func()            // ends it; nil: not begun
	screen  *screen
}

// show begins to take pictures; those taken before are let go.
func (c *conversation) show(ctx context.Context) {
	if c.forget != nil {
		c.forget()
	}
	c.shows, c.forget = context.WithCancel(ctx)
}

// turn is a message with its pictures.
type turn struct {
	tokenizer.Message
	pictures []*engine.Picture
}

// question is a turn of the user. Pictures stand before the text.
func (c *conversation) question(text string) (turn, error) {
	t := turn{tokenizer.Message{Role: "user", Content: tokenizer.Content{Text: text}}, c.shown}
	if len(c.shown) == 0 {
		return t, nil
	}
	parts := make([]map[string]string, 0, len(c.shown)+1)
	for _, p := range c.shown {
		kind := "image"
		if p.Video() {
			kind = "video"
		}
		parts = append(parts, map[string]string{"type": kind})
	}
	parts = append(parts, map[string]string{"type": "text", "text": text})
	raw, err := json.Marshal(parts)
	if err == nil {
		err = t.Content.UnmarshalJSON(raw)
	}
	return t, err
}

// ask answers one question and remembers both.
func (c *conversation) ask(ctx context.Context, text string) (*engine.Result, error) {
	question, err := c.question(text)
	if err != nil {
		return nil, err
	}
	req, err := c.fit(question)
	if err != nil {
		return nil, err
	}
	c.screen.begin()
	res, err := c.m.Generate(ctx, req, c.screen.event)
	if err != nil {
		c.screen.abort()
		return nil, err
	}
	if !c.raw {
		answer := tokenizer.Message{Role: "assistant", Content: tokenizer.Content{Text: res.Text}}
		if res.Thinking != "" {
			answer.ReasoningContent = &res.Thinking
		}
		c.history = append(c.history, question, turn{Message: answer})
		c.shown = nil
	}
	return res, c.screen.finish(c.m, res, c.request.Sampling.Seed)
}

// fit makes the request. Where the conversation has outgrown the context, its
// oldest turns are dropped, and that is said.
func (c *conversation) fit(question turn) (engine.Request, error) {
	req, size := c.request, c.m.Info().Context
	for dropped := 0; ; dropped++ {
		var err error
		if err = c.fill(&req, question); err != nil {
			return req, err
		}
		room := size - len(req.Tokens)
		if want := c.request.MaxTokens; want == 0 {
			req.MaxTokens = max(min(defaultAnswer, room), 1)
		}
		if room >= req.MaxTokens || len(c.history) < 2 {
			if dropped > 0 {
				what := "its oldest turn is"
				if dropped > 1 {
					what = fmt.Sprintf("its %d oldest turns are", dropped)
				}
				c.screen.note("the conversation no longer fits %d tokens: %s dropped", size, what)
			}
			return req, nil // the engine refuses, with the counts, what still does not fit
		}
		c.history = c.history[2:]
	}
}

// fill sets tokens and pictures of a request.
func (c *conversation) fill(req *engine.Request, question turn) (err error) {
	if c.raw {
		req.Tokens = appliance.PlainTokens(c.m.Tokenizer(), c.m.Meta(), question.Content.Text)
		return nil
	}
	var messages []tokenizer.Message
	if c.system != "" {
		messages = append(messages, tokenizer.Message{Role: "system", Content: tokenizer.Content{Text: c.system}})
	}
	req.Pictures = nil
	for _, t := range append(slices.Clone(c.history), question) {
		messages, req.Pictures = append(messages, t.Message), append(req.Pictures, t.pictures...)
	}
	chat := tokenizer.Chat{Messages: messages, AddGenerationPrompt: true, EnableThinking: &c.think, Tools: req.Tools}
	req.Tokens, err = appliance.ChatTokens(c.m, chat, req.Pictures)
	return err
}

// interact chats line by line until the input ends. Ctrl-C stops an answer, not
// the conversation, so that it is not the command's context that counts here.
func (c *conversation) interact(cmd *cobra.Command) error {
	c.screen.welcome(c.m.Info())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	lines := readLines(cmd.InOrStdin())
	for {
		c.screen.prompt()
		select {
		case s := <-signals:
			if s == syscall.SIGTERM {
				return errSilent
			}
			c.screen.note("\nCtrl-D ends")
		case l := <-lines:
			if err := c.answer(signals, strings.TrimSpace(l.text)); err != nil {
				return err
			}
			if errors.Is(l.err, io.EOF) {
				c.screen.newline()
				return nil
			}
			if l.err != nil {
				return l.err
			}
		}
	}
}

// answer carries out one line. A question that does not fit the context does not
// end the conversation.
func (c *conversation) answer(signals <-chan os.Signal, text string) error {
	switch text {
	case "":
		return nil
	case "/clear":
		c.history, c.shown = nil, nil
		c.show(context.Background())
		c.screen.note("the conversation is forgotten")
		return nil
	}
	if path, ok := strings.CutPrefix(text, "/image "); ok {
		pic, err := loadPicture(c.shows, c.m, strings.TrimSpace(path))
		if err != nil {
			c.screen.note("%s", oneLine(err))
			return nil
		}
		c.shown = append(c.shown, pic)
		c.screen.note("%d %s for the next question, %d tokens", len(c.shown), plural(len(c.shown), "picture"), pic.Places())
		return nil
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case s := <-signals:
			if s == syscall.SIGTERM {
				cancel(errSilent)
			} else {
				cancel(context.Canceled)
			}
		case <-over:
		}
	}()
	_, err := c.ask(ctx, text)
	if errors.Is(err, engine.ErrContextOverflow) || errors.Is(err, engine.ErrPicture) {
		c.shown = nil
		c.screen.note("%s", oneLine(err))
		err = nil
	}
	if err == nil && errors.Is(context.Cause(ctx), errSilent) {
		err = errSilent
	}
	return err
}

type line struct {
	text string
	err  error
}

// readLines reads in the background, so that a signal can come in between. The
// goroutine ends with the input, or with the program.
func readLines(r io.Reader) <-chan line {
	lines := make(chan line)
	go func() {
		in := bufio.NewReader(r)
		for {
			text, err := in.ReadString('\n')
			lines <- line{text, err}
			if err != nil {
				return
			}
		}
	}()
	return lines
}
