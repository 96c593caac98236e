// SPDX-License-Identifier: Apache-2.0

package web

import "windhover/control"

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
}

func plainLogprobsOf(list []control.TokenLogprob) *plainLogprobs {
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
	}
	return out
}
