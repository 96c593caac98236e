// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"time"

	"windhover/vqf"
)

// Options say how to load a model. The zero value is good: all big cores, the
// context the file names, int8 activations.
type Options struct {
	// Threads is the number of workers; 0 means one for each big core.
	Threads int
	// Pin binds each worker to its CPU while a request runs.
	Pin bool
	// Context is the number of tokens a sequence may have; 0 means what the
	// file names, less where MemoryLimit asks for it.
	Context int
	// Sequences is how many requests are computed at once, at most 8; 0 means 8.
	// It changes speed and memory, never a result.
	Sequences int
	// CacheBytes is what the KV cache of all requests and of the prefixes that are
	// kept may take, never less than a context of one. 0 means one context, and
	// where MemoryLimit leaves more, up to a context for each of Sequences in a
	// quarter of that.
	CacheBytes int64
	// KV is the type of the KV cache: "f16" (also ""), or "int8", which takes
	// little more than half of the memory and answers a little differently.
	KV string
	// Family names the copy of a dual file that computes, "q4" (also "") or
	// "q8". A file with one family computes with that.
	Family string
	// Activations is "" or "int8", or "f32" for the reference path: weights
	// dequantised row by row, plain float32 arithmetic, KV cache in float32.
	Activations string
	// Chunk is the number of prompt tokens computed at once; 0 means
	// [DefaultChunk]. It changes speed and memory, never a result.
	Chunk int
	// Residency says how the weights are held: ResidencyFull, ResidencyExperts,
	// ResidencyLayered, or ResidencyAuto (also ""), which is the first of these that
	// fits MemoryLimit. It changes speed and memory, never a result.
	Residency string
	// MemoryLimit in bytes covers weights, KV cache and scratch; 0 means no
	// limit. See [Estimate].
	MemoryLimit int64
	// Saved is where the prefixes that are kept outlive the model; see [Saved].
	Saved Saved
	// NoTokenizer loads without a tokenizer: requests by token only, no text.
	NoTokenizer bool
	// VQF says how the file is opened (flag gate, checks).
	VQF vqf.OpenOptions
}

// DefaultChunk is the prefill chunk when Options.Chunk is 0.
const DefaultChunk = 256

// Sampling chooses a token from the logits; see sampler.go for the order of
// the filters. The zero value is greedy.
type Sampling struct {
	Temperature   float32 // 0: greedy
	TopK          int     // 0: off
	TopP          float32 // 0 or >= 1: off
	MinP          float32 // 0: off
	RepeatPenalty float32 // 0 or 1: off
	Seed          uint64  // same seed, same tokens
}

// Request is one generation.
type Request struct {
	// Tokens is the whole prompt; at least one.
	Tokens []int32
	// Pictures fill the runs of image and video tokens in it, in order; see
	// [Model.Place].
	Pictures []*Picture
	// MaxTokens bounds what is generated; 0 means what the context leaves.
	MaxTokens int
	Sampling  Sampling
	// Stop strings end the answer; they and what follows are cut. They are
	// looked for in the answer, not in the thinking.
	Stop []string
	// StopIDs end the answer beside the model's own end tokens.
	StopIDs []int32
	// IgnoreEOS generates on over the model's own end tokens.
	IgnoreEOS bool
	// ThinkBudget bounds the thinking in tokens: when it is used up, the end
	// of the thinking is put in the model's mouth. 0 means no bound.
	ThinkBudget int
	// Schema is a JSON schema that the answer is held to, behind its thinking: see
	// package grammar for what of schemas is taken. It ends where the value does.
	Schema []byte
	// JSONObject holds the answer to any JSON object.
	JSONObject bool
	// Tools are the functions that the prompt told the model of, as JSON objects
	// {"type":"function","function":{"name","parameters","strict"}}. Its calls of them
	// are taken out of the text. With a strict one among them each call is held to one
	// of them, and to the parameters of a strict one; the text is not.
	Tools []json.RawMessage
	// MustCall makes the answer one call of a tool, of the one named CallTool where
	// that is not empty.
	MustCall bool
	CallTool string
	// OneCall ends the answer behind its first call of a tool.
	OneCall bool
	// MayThink lets an answer that is held to a form begin with thinking.
	MayThink bool
	// Logprobs asks for the logprob of each token of the answer and of the
	// TopLogprobs best ones in its place, at most [MaxTopLogprobs].
	Logprobs    bool
	TopLogprobs int
	// Raw leaves thinking in the text and shows special tokens as text.
	Raw bool
	// Truncate says what of a prompt is dropped that leaves no room for MaxTokens:
	// "" (nothing: an error), TruncateOldest or TruncateMiddle.
	Truncate string
	// Client is whom the request is for. Clients are given their share in turn,
	// whoever asks most.
	Client string
	// Priority puts requests before others with a higher number, which wait until
	// they have no use for the room. A request that 8 younger ones have passed counts
	// for one lower, and so on, so that none waits for ever.
	Priority int
	// Realm is within what beginnings of prompts and pictures that were computed are
	// used again: a request finds what those of the same realm left, and nothing of
	// any other, whose prompts [Usage] and the time it takes would tell of. It never
	// changes a token.
	Realm string
}

// What Request.Truncate drops.
const (
	TruncateOldest = "oldest" // the beginning, but for the token that begins a text
	TruncateMiddle = "middle" // what is behind a first quarter of what there is room for
)

// Event is something that happened during a generation; exactly one field is
// set. What it points to is valid during the call only.
type Event struct {
	Progress *Progress
	Delta    *Delta
}

// Progress tells how much of a prompt is computed; sent for prompts longer
// than a chunk.
type Progress struct {
	Done, Total int // tokens; Total is the prompt, cached tokens count as done
}

// Delta is what is new: text in whole characters, never a part of one, calls of
// tools behind it, or only logprobs of tokens that gave no text.
type Delta struct {
	Text      string
	Thinking  string
	ToolCalls []ToolCall
	Logprobs  []Logprob // of the answer's tokens, none of the thinking's
	Tokens    int       // tokens generated since the last Delta
}

// ToolCall is a call of a tool.
type ToolCall struct {
	Name      string
	Arguments string // a JSON object
}

// Logprob is the natural logarithm of the probability that the model gave a token,
// by its raw logits: before penalties, temperature, filters and forms.
type Logprob struct {
	ID    int32
	Value float32
	Top   []Logprob // the best tokens in its place, best first
}

// MaxTopLogprobs is the most that Request.TopLogprobs may ask for.
const MaxTopLogprobs = 20

// How a generation ended.
const (
	FinishStop     = "stop"     // end token, stop id or stop string
	FinishLength   = "length"   // MaxTokens reached
	FinishCancel   = "cancel"   // context cancelled
	FinishDeadline = "deadline" // context deadline passed
)

// Result is what a generation gave. A generation that was cancelled or ran
// into its deadline has a Result too, with what there was until then.
type Result struct {
	Text      string
	Thinking  string
	Finish    string  // FinishStop, FinishLength, FinishCancel, FinishDeadline
	Tokens    []int32 // as generated, without the end token
	Truncated int     // tokens dropped from the prompt, by Truncate
	ToolCalls []ToolCall
	// BadToolCall: something that began like a call is none; it stands in the text.
	BadToolCall bool
	Logprobs    []Logprob // all that the deltas gave
	Usage       Usage
	Timing      Timing
}

// Usage counts tokens.
type Usage struct {
	Prompt     int // tokens of the prompt after truncation
	Completion int // tokens generated, without the end token
	Cached     int // tokens of the prompt that were still in the KV cache, from the same realm

	Pictures      int // of the prompt; a video is one
	PicturesKnown int // of them, not computed again: the same had been seen before
}

// Timing tells where the time went.
type Timing struct {
	Wait       time.Duration // start to the first work on it
	TTFT       time.Duration // start to first token
	Prefill    time.Duration // computing the prompt
	Decode     time.Duration // first token to the end
	Total      time.Duration
	PrefillTPS float64 // prompt tokens computed a second; 0 when none were
	DecodeTPS  float64 // tokens a second after the first; 0 when none were
}
