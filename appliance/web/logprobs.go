// SPDX-License-Identifier: Apache-2.0

package web

import (
	"slices"
	"unicode/utf8"

	"windhover/control"
)

// chatLogprobs are those of an answer in a chat, or of a piece of it.
type chatLogprobs struct {
	Content []chosenLogprob `json:"content"`
}

// chosenLogprob is of a token of the answer, and of the likeliest in its place.
type chosenLogprob struct {
	tokenLogprob
	Top []tokenLogprob `json:"top_logprobs"`
}

type tokenLogprob struct {
	Token   string  `json:"token"`
	Logprob float32 `json:"logprob"`
	Bytes   []int   `json:"bytes"` // also of a token that is a part of a character
}

// chatLogprobsOf returns nil where there are none: none were asked for, or this piece
// stands for no token.
func chatLogprobsOf(list []control.TokenLogprob) *chatLogprobs {
	if len(list) == 0 {
		return nil
	}
	out := &chatLogprobs{Content: make([]chosenLogprob, len(list))}
	for i, l := range list {
		c := chosenLogprob{tokenLogprobOf(l), make([]tokenLogprob, len(l.Top))}
		for j, t := range l.Top {
			c.Top[j] = tokenLogprobOf(t)
		}
		out.Content[i] = c
	}
	return out
}

func tokenLogprobOf(l control.TokenLogprob) tokenLogprob {
	raw := l.Bytes
	if len(raw) == 0 {
		raw = []byte(l.Token)
	}
	t := tokenLogprob{Token: l.Token, Logprob: l.Logprob, Bytes: make([]int, len(raw))}
	for i, b := range raw {
		t.Bytes[i] = int(b)
	}
	return t
}

// plainLogprobs are those of a continued text.
type plainLogprobs struct {
	Tokens   []string             `json:"tokens"`
	Logprobs []float32            `json:"token_logprobs"`
	Top      []map[string]float32 `json:"top_logprobs"`
	Offsets  []int                `json:"text_offset"`
}

// plainLogprobsOf returns nil where there are none. at goes on from piece to piece.
func plainLogprobsOf(list []control.TokenLogprob, at *place) *plainLogprobs {
	if len(list) == 0 {
		return nil
	}
	out := &plainLogprobs{}
	for _, l := range list {
		top := make(map[string]float32, len(l.Top))
		for _, t := range l.Top {
			top[t.Token] = t.Logprob
		}
		out.Tokens, out.Logprobs, out.Top = append(out.Tokens, l.Token), append(out.Logprobs, l.Logprob), append(out.Top, top)
		out.Offsets = append(out.Offsets, at.next(l))
	}
	return out
}

// place is where in a text its next token begins.
type place struct {
	chars int    // whole characters before it
	part  []byte // the beginning of one behind them
}

// next is the number of characters before a token, of which it may begin inside another.
// What is no UTF-8 counts as what the text has in its place: one U+FFFD for the beginning
// of a character, or for a byte.
func (p *place) next(l control.TokenLogprob) int {
	raw := l.Bytes
	if len(raw) == 0 {
		raw = []byte(l.Token)
	}
	at, begin := p.chars, len(p.part) // the token begins there in part
	p.part = append(p.part, raw...)
	for utf8.FullRune(p.part) {
		r, n := utf8.DecodeRune(p.part)
		if r == utf8.RuneError && n == 1 {
			for n < len(p.part) && !utf8.FullRune(p.part[:n+1]) {
				n++
			}
		}
		p.part = p.part[n:]
		p.chars++
		if begin -= n; begin >= 0 {
			at = p.chars
		}
	}
	p.part = slices.Clone(p.part) // at most three bytes: what was before is let go
	return at
}
