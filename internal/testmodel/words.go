// SPDX-License-Identifier: Apache-2.0

package testmodel

import (
	"fmt"
	"slices"
)

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
