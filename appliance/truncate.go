// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"

	"windhover/control"
	"windhover/engine"
	"windhover/engine/tokenizer"
)

// conversation is a chat with the pictures of each message, and what of it may go
// where it is too long.
type conversation struct {
	tokenizer.Chat
	pictures [][]*engine.Picture // [messages], in the order of their parts
	going    []int               // messages that may go, the first to go first
	least    int                 // how many of these go for their pictures alone, which were not read
}

// expendable is which messages a policy lets go, in that order: the oldest, or with
// TruncateMiddle the oldest behind the first question and its answer before those. The
// system message at the beginning and the last message stay.
func expendable(policy string, messages []control.Message) []int {
	if policy == "" {
		return nil
	}
	var list []int
	for i := range len(messages) - 1 {
		if i > 0 || messages[i].Role != "system" {
			list = append(list, i)
		}
	}
	if policy == control.TruncateMiddle && len(list) > 2 {
		list = append(list[2:], list[:2]...)
	}
	return list
}

// unshortened has a refusal of what is too long say that truncation, which was asked for,
// did what it could: what a chat becomes is shortened here, and the engine knows nothing of it.
func unshortened(r *control.Request, err error) error {
	var over *engine.ContextError
	if r.Truncate == "" || !errors.As(err, &over) {
		return err
	}
	told := *over
	told.Truncated = true
	return &told
}

// readPictures reads the pictures of messages. Those that go last come first, so that
// of pictures for which there is no room, and which go with their messages, at most
// one is read.
func (c *conversation) readPictures(read *pictureReader, messages []control.Message) error {
	c.pictures = make([][]*engine.Picture, len(messages))
	going := make([]bool, len(messages))
	for _, i := range c.going {
		going[i] = true
	}
	for i, m := range messages {
		if going[i] {
			continue
		}
		var err error
		if c.pictures[i], err = read.message(i, m); err != nil {
			return err
		}
	}
	for k := len(c.going) - 1; k >= 0; k-- {
		i := c.going[k]
		list, err := read.message(i, messages[i])
		if errors.Is(err, engine.ErrContextOverflow) {
			c.least = k + 1
			return nil
		}
		if err != nil {
			return err
		}
		c.pictures[i] = list
	}
	return nil
}

// without is what the conversation becomes as tokens when n messages have gone.
func (c *conversation) without(s Speaker, n int) ([]int32, []*engine.Picture, error) {
	gone := make([]bool, len(c.Messages))
	for _, i := range c.going[:n] {
		gone[i] = true
	}
	chat := c.Chat
	chat.Messages = nil
	var pictures []*engine.Picture
	for i, m := range c.Messages {
		if !gone[i] {
			chat.Messages, pictures = append(chat.Messages, m), append(pictures, c.pictures[i]...)
		}
	}
	tokens, err := ChatTokens(s, chat, pictures)
	return tokens, pictures, err
}

// tokens makes the conversation at most room tokens by letting messages go, with their
// pictures; where even those that stay do not fit it returns them. What is left is
// rendered again and counted, never cut. As few messages go as have to, with a template
// that makes more tokens of more messages; with any other there may be more.
func (c *conversation) tokens(ctx context.Context, s Speaker, room int) ([]int32, []*engine.Picture, error) {
	t := truncation{ctx: ctx, room: room, render: func(n int) ([]int32, []*engine.Picture, error) { return c.without(s, n) }}
	return t.search(c.least, len(c.going))
}

// truncation looks for the fewest messages that have to go, with as few renderings of
// the conversation as bisection takes: a long one takes milliseconds each.
type truncation struct {
	ctx    context.Context
	room   int
	render func(gone int) ([]int32, []*engine.Picture, error)

	tokens   []int32 // of the last try that was rendered
	pictures []*engine.Picture
}

// refusals is how many lengths in a row a template may refuse before none near them is
// taken to do: one that wants question and answer in turns refuses every second, and
// calls of tools and what they gave come in small groups.
const refusals = 4

// try renders the conversation with n messages gone.
func (t *truncation) try(n int) (fits bool, err error) {
	if err := t.ctx.Err(); err != nil {
		return false, err
	}
	tokens, pictures, err := t.render(n)
	if err != nil {
		return false, err
	}
	t.tokens, t.pictures = tokens, pictures
	return len(tokens) <= t.room, nil
}

// tryNear is the first of some lengths from n on, in steps of by and before end, that
// the template takes; else the error for n.
func (t *truncation) tryNear(n, by, end int) (at int, fits bool, err error) {
	var first error
	for at = n; at != end && at != n+refusals*by; at += by {
		if fits, err = t.try(at); err == nil || t.ctx.Err() != nil {
			return at, fits, err
		}
		if first == nil {
			first = err
		}
	}
	return at, false, first
}

// search tries least, then most, then what is between.
func (t *truncation) search(least, most int) ([]int32, []*engine.Picture, error) {
	fits, err := t.try(least)
	switch {
	case t.ctx.Err() != nil:
		return nil, nil, t.ctx.Err()
	case err != nil && (least == 0 || least == most):
		return nil, nil, err
	case fits || least == most:
		return t.tokens, t.pictures, nil
	}
	hi, fits, err := t.tryNear(most, -1, least)
	if err != nil {
		return nil, nil, err
	}
	best := *t
	for lo := least; fits && hi-lo > 1; {
		at, ok, err := t.tryNear(lo+(hi-lo)/2, 1, hi)
		switch {
		case t.ctx.Err() != nil:
			return nil, nil, t.ctx.Err()
		case err != nil:
			lo = at - 1
		case ok:
			hi, best = at, *t
		default:
			lo = at
		}
	}
	return best.tokens, best.pictures, nil
}
