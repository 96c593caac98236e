// SPDX-License-Identifier: Apache-2.0

package testmodel

// The vocabulary: five special tokens, then the 256 bytes. Rows up to Vocab
// have no token.
const (
	TokenText  = 0 // <|endoftext|>
	TokenStart = 1 // <|im_start|>
	TokenEnd   = 2 // <|im_end|>, ends an answer
	TokenThink = 3 // <think>
	TokenDone  = 4 // </think>
	TokenByte  = 5 // byte 0; byte b is TokenByte + b

	TokenCount = TokenByte + 256
	Vocab      = 264 // a multiple of 8
)

// What the model says:
//
//   - after a line feed, as at the end of a chat prompt: Answer, then TokenEnd;
//   - after TokenThink: Thinking, TokenDone, a line feed, then as above;
//   - after '9': Chinese, in bytes that do not stand alone, then TokenEnd;
//   - after '0' to '8': the digits 0 to 8 in turn, without an end;
//   - after TokenEnd: a line feed, so that ignoring the end goes on for ever.
const (
	Answer   = "Tiny model."
	Thinking = "Huh?"
	Chinese  = "世界!"
)

// Tokens is text as the model's tokenizer has it, without special tokens.
func Tokens(text string) []int32 {
	ids := make([]int32, len(text))
	for i := range len(text) {
		ids[i] = TokenByte + int32(text[i])
	}
	return ids
}

var next = makeScript()

// Next is the token that follows id.
func Next(id int32) int32 { return next[id] }

func makeScript() [TokenCount]int32 {
	var next [TokenCount]int32
	for b := range 256 {
		next[TokenByte+b] = TokenByte + int32((b+1)%256)
	}
	chain := func(from int32, text string, to int32) {
		for _, id := range Tokens(text) {
			next[from] = id
			from = id
		}
		next[from] = to
	}
	lineFeed := Tokens("\n")[0]
	chain(lineFeed, Answer, TokenEnd)
	chain(TokenThink, Thinking, TokenDone)
	chain(Tokens("9")[0], Chinese, TokenEnd)
	chain(Tokens("8")[0], "0", Tokens("1")[0])
	for _, id := range []int32{TokenText, TokenStart, TokenEnd, TokenDone} {
		next[id] = lineFeed
	}
	return next
}
