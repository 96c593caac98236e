// SPDX-License-Identifier: Apache-2.0

package testmodel

import (
	"fmt"
	"slices"
)

// Caller is the usual model with more room and markers around calls of tools, which says
// "Sure. ", a call of the tool and " Done." in place of Answer.
func Caller(tool, arguments string) Config {
	const open, shut = "<tool_call>", "</tool_call>"
	c := Default()
	head, args := "\n{\"name\": \""+tool+"\", \"arguments\": ", arguments+"}\n"
	c.MaxSeq, c.Marks, c.Words = 1024, []string{open, shut}, []string{"Sure. ", head, args, " Done."}
	c.Says = []string{"Sure. ", open, head, args, shut, " Done."}
	return c
}

// TokenOf is the token of one of Config.Marks or Config.Words.
func (c Config) TokenOf(text string) int32 {
	at := slices.Index(slices.Concat(c.Marks, c.Words), text)
	if at < 0 {
		panic(fmt.Sprintf("testmodel: no token %q", text))
	}
	first := TokenCount
	if c.Vision {
		first += len(visionTokens)
	}
	return int32(first + at)
}

// vocab is how many rows all tokens take, a multiple of 8.
func (c Config) vocab() int {
	n := TokenCount + len(c.Marks) + len(c.Words)
	if c.Vision {
		n += len(visionTokens)
	}
	return (n + 7) / 8 * 8
}

// script is what follows each token; -1: nothing.
func (c Config) script() []int32 {
	follows := slices.Concat(next[:], slices.Repeat([]int32{-1}, c.vocab()-TokenCount))
	from := Tokens("\n")[0]
	for i, word := range c.Says {
		id := c.TokenOf(word)
		follows[from], from = id, id
		if i == len(c.Says)-1 {
			follows[id] = TokenEnd
		}
	}
	return follows
}
