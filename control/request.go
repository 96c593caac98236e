// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"encoding/json"
	"time"
	"unicode/utf8"
)

// Operations below req/.
const (
	OpGenerate = "generate" // raw continuation of prompt
	OpChat     = "chat"     // messages through the model's template
	OpPrompt   = "prompt"   // the payload is one user message
	OpEmbed    = "embed"    // vectors of texts
	OpTokenize = "tokenize"
	OpCancel   = "cancel"
	OpFetch    = "fetch"
)

// Ops lists the operations this package answers.
var Ops = []string{OpGenerate, OpChat, OpPrompt, OpEmbed, OpTokenize, OpCancel, OpFetch}

// Sampling used where neither the request nor the model says otherwise.
const (
	DefaultTemperature = 0.7
	DefaultTopP        = 0.8
	DefaultTopK        = 20
)

const (
	defaultMaxTokens = 256
	defaultFlush     = 50 * time.Millisecond
	defaultPriority  = 5
	lowestPriority   = 9

	maxMaxTokens = 1 << 20
	maxStops     = 16
	maxStopBytes = 512
	maxMessages  = 1024
	maxTexts     = 2048 // to embed
	maxFrames    = 1024 // of a video
	maxFPS       = 1000
	maxFileName  = 255
	maxFlush     = 10 * time.Second
	maxDuration  = 24 * time.Hour
)

// What Request.Truncate drops where the context is too small.
const (
	TruncateOldest = "oldest" // the oldest messages of a chat, the beginning of a plain prompt
	TruncateMiddle = "middle" // what is behind the first question and its answer, or the first quarter of the room
)

// What Request.ToolChoice says.
const (
	ToolsNone     = "none"     // no tool is called, nor is the model told of any
	ToolsRequired = "required" // the answer is a call of a tool
	ToolsNamed    = "function" // it is one of ToolName
)

// MaxTopLogprobs is the most that Request.TopLogprobs may be.
const MaxTopLogprobs = 20

// Request is one question of a client, decoded, checked and with the defaults of the
// protocol filled in.
type Request struct {
	Op     string // OpGenerate, OpChat (also what OpPrompt becomes), OpEmbed, OpTokenize, OpCancel, OpFetch
	Client string // from the topic; a caller in this process names one with a colon, which no topic has
	ID     string // "" until the device makes one

	Model    string // "": the default model
	Prompt   string
	Messages []Message
	Tools    []json.RawMessage

	Texts      []string // embed: each gets a reply with its vector; Prompt alone has it in done
	Dimensions int      // embed: of the vectors; 0: all that the model gives

	Schema      json.RawMessage // json_schema: the answer is a value of it
	JSONObject  bool            // the answer is a JSON object
	ToolChoice  string          // "" (the model's), ToolsNone, ToolsRequired or ToolsNamed
	ToolName    string          // with ToolsNamed
	OneCall     bool            // the answer ends behind its first call
	Logprobs    bool
	TopLogprobs int // 0 to MaxTopLogprobs

	MaxTokens     int
	Temperature   *float32 // nil: the model's default, else DefaultTemperature; so for the next two
	TopP          *float32
	TopK          *int
	MinP          float32
	RepeatPenalty float32
	Seed          *uint64 // nil: any
	Stop          []string
	Truncate      string // "" (refuse), TruncateOldest or TruncateMiddle
	Think         bool
	ThinkBudget   int // tokens; 0: none said

	Stream    bool
	StreamQoS byte
	Flush     time.Duration
	FinalText bool
	Deadline  time.Duration // 0: none
	SentAt    time.Time     // zero: not said
	TTL       time.Duration // 0: none
	Priority  int           // 0 first

	Target  string // cancel, fetch
	FromSeq int    // fetch

	Received string // to Ask: digest of the bytes that the request came in as; "": not said
}

// Message is one turn of a chat. Content marshals as Hugging Face templates expect
// it: a string, or a list of parts.
type Message struct {
	Role       string          `json:"role"`
	Content    Content         `json:"content"`
	Reasoning  string          `json:"reasoning_content,omitempty"`
	ToolCalls  json.RawMessage `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
	Name       string          `json:"name,omitempty"`
}

// Content is what a message says: text, or parts in order (then Text is "").
type Content struct {
	Text  string
	Parts []Part
}

// Part is a piece of a message.
type Part struct {
	Type string `json:"type"` // text, image, video
	Text string `json:"text,omitempty"`
	Picture
	Frames []Picture `json:"frames,omitempty"` // of a video, in order
	FPS    float64   `json:"fps,omitempty"`    // of them a second; 0: DefaultFPS
}

// Picture is the file of a picture: its bytes, or its name where the device has it.
type Picture struct {
	Data []byte `json:"data,omitempty"` // base64 on the wire
	File string `json:"file,omitempty"` // name inside import/
}

// DefaultFPS is the rate of a video that does not say: what models look at.
const DefaultFPS = 2

// MarshalJSON writes a string, or the list of parts.
func (c Content) MarshalJSON() ([]byte, error) {
	if c.Parts != nil {
		return encode(c.Parts)
	}
	return encode(c.Text)
}

// UnmarshalJSON reads a string, null or a list of parts.
func (c *Content) UnmarshalJSON(p []byte) error {
	*c = Content{}
	if len(p) > 0 && p[0] == '[' {
		return json.Unmarshal(p, &c.Parts)
	}
	return json.Unmarshal(p, &c.Text)
}

// wireRequest is a request as it is written. Pointers tell absent from zero.
type wireRequest struct {
	ID            *string           `json:"id,omitempty"`
	Model         string            `json:"model,omitempty"`
	Prompt        *string           `json:"prompt,omitempty"`
	Text          *string           `json:"text,omitempty"` // tokenize, embed: same as prompt
	Texts         []string          `json:"texts,omitempty"`
	Dimensions    int               `json:"dimensions,omitempty"`
	Messages      []Message         `json:"messages,omitempty"`
	Tools         []json.RawMessage `json:"tools,omitempty"`
	Schema        json.RawMessage   `json:"json_schema,omitempty"`
	JSONObject    bool              `json:"json_object,omitempty"`
	ToolChoice    json.RawMessage   `json:"tool_choice,omitempty"`
	ParallelCalls *bool             `json:"parallel_tool_calls,omitempty"`
	Logprobs      bool              `json:"logprobs,omitempty"`
	TopLogprobs   int               `json:"top_logprobs,omitempty"`
	MaxTokens     *int              `json:"max_tokens,omitempty"`
	Temperature   *float32          `json:"temperature,omitempty"`
	TopP          *float32          `json:"top_p,omitempty"`
	TopK          *int              `json:"top_k,omitempty"`
	MinP          *float32          `json:"min_p,omitempty"`
	RepeatPenalty *float32          `json:"repeat_penalty,omitempty"`
	Seed          *uint64           `json:"seed,omitempty"`
	Stop          []string          `json:"stop,omitempty"`
	Truncate      string            `json:"truncate,omitempty"`
	Think         bool              `json:"think,omitempty"`
	ThinkBudget   int               `json:"think_budget,omitempty"`
	Stream        *bool             `json:"stream,omitempty"`
	StreamQoS     *int              `json:"stream_qos,omitempty"`
	FlushMS       *int64            `json:"flush_ms,omitempty"`
	FinalText     *bool             `json:"final_text,omitempty"`
	DeadlineMS    *int64            `json:"deadline_ms,omitempty"`
	SentAt        string            `json:"sent_at,omitempty"`
	TTLMS         *int64            `json:"ttl_ms,omitempty"`
	Priority      *int              `json:"priority,omitempty"`
	Target        string            `json:"target,omitempty"`
	FromSeq       int               `json:"from_seq,omitempty"`
}

// DecodeRequest reads the payload of op from client, fills in defaults and checks
// every field. Unknown fields are ignored. Whatever is wrong comes back as an *Error
// with BadRequest or Unsupported; the size limit is the caller's business.
func DecodeRequest(op, client string, p []byte) (*Request, error) {
	if !utf8.Valid(p) {
		return nil, Errorf(BadRequest, "the payload is not UTF-8")
	}
	r := &Request{
		Op: op, Client: client, MaxTokens: defaultMaxTokens, RepeatPenalty: 1,
		Stream: true, StreamQoS: 1, Flush: defaultFlush, FinalText: true, Priority: defaultPriority,
	}
	switch op {
	case OpPrompt:
		r.Op = OpChat
		r.Messages = []Message{{Role: "user", Content: Content{Text: string(p)}}}
		return r, nil
	case OpGenerate, OpChat, OpEmbed, OpTokenize, OpCancel, OpFetch:
	default:
		return nil, Errorf(Unsupported, "operation %.64q is unknown", op)
	}
	var w wireRequest
	if err := json.Unmarshal(p, &w); err != nil {
		return nil, Errorf(BadRequest, "%s", JSONProblem(err))
	}
	if first := bytes.TrimLeft(p, " \t\r\n"); first[0] != '{' {
		return nil, Errorf(BadRequest, "the payload is not a JSON object")
	}
	if err := r.fill(&w); err != nil {
		return nil, err
	}
	return r, r.check(&w)
}

// fill copies the fields that are there and checks their ranges.
func (r *Request) fill(w *wireRequest) error {
	if w.ID != nil {
		if !ValidID(*w.ID) {
			return Errorf(BadRequest, "id %.80q: use 1 to 64 of A-Z a-z 0-9 . _ : - and not \"_\" alone", *w.ID)
		}
		r.ID = *w.ID
	}
	r.Model, r.Messages, r.Tools = w.Model, w.Messages, w.Tools
	r.Texts, r.Dimensions = w.Texts, w.Dimensions
	if err := r.fillForm(w); err != nil {
		return err
	}
	r.Temperature, r.TopP, r.TopK, r.Seed = w.Temperature, w.TopP, w.TopK, w.Seed
	r.Stop, r.Truncate, r.Think, r.ThinkBudget = w.Stop, w.Truncate, w.Think, w.ThinkBudget
	r.Target, r.FromSeq = w.Target, w.FromSeq
	if p := firstOf(w.Prompt, w.Text); p != nil {
		r.Prompt = *p
	}
	set(&r.MaxTokens, w.MaxTokens)
	set(&r.MinP, w.MinP)
	set(&r.RepeatPenalty, w.RepeatPenalty)
	set(&r.Stream, w.Stream)
	set(&r.FinalText, w.FinalText)
	set(&r.Priority, w.Priority)
	if w.StreamQoS != nil {
		if *w.StreamQoS < 0 || *w.StreamQoS > 1 {
			return Errorf(BadRequest, "stream_qos %d: 0 or 1", *w.StreamQoS)
		}
		r.StreamQoS = byte(*w.StreamQoS)
	}
	if err := millis(&r.Flush, "flush_ms", w.FlushMS, 0, maxFlush); err != nil {
		return err
	}
	if err := millis(&r.Deadline, "deadline_ms", w.DeadlineMS, time.Millisecond, maxDuration); err != nil {
		return err
	}
	if err := millis(&r.TTL, "ttl_ms", w.TTLMS, time.Millisecond, 365*maxDuration); err != nil {
		return err
	}
	if w.SentAt != "" {
		t, err := time.Parse(time.RFC3339Nano, w.SentAt)
		if err != nil {
			return Errorf(BadRequest, "sent_at %.40q is not RFC 3339", w.SentAt)
		}
		r.SentAt = t
	}
	return nil
}

// Encode returns the payload that DecodeRequest reads back as r: defaults are left
// out, Op and Client stand in the topic.
func (r *Request) Encode() ([]byte, error) {
	w := wireRequest{
		Model: r.Model, Messages: r.Messages, Texts: r.Texts, Dimensions: r.Dimensions, Tools: r.Tools, Schema: r.Schema, JSONObject: r.JSONObject, ToolChoice: r.toolChoice(),
		Logprobs: r.Logprobs, TopLogprobs: r.TopLogprobs,
		Temperature: r.Temperature, TopP: r.TopP, TopK: r.TopK, Seed: r.Seed,
		Stop: r.Stop, Truncate: r.Truncate, Think: r.Think, ThinkBudget: r.ThinkBudget,
		Target: r.Target, FromSeq: r.FromSeq,
	}
	if r.OneCall {
		w.ParallelCalls = new(bool)
	}
	if r.ID != "" {
		w.ID = &r.ID
	}
	if r.Prompt != "" || r.Op == OpTokenize {
		w.Prompt = &r.Prompt
	}
	unless(&w.MaxTokens, &r.MaxTokens, 0, defaultMaxTokens)
	unless(&w.MinP, &r.MinP, 0)
	unless(&w.RepeatPenalty, &r.RepeatPenalty, 0, 1)
	unless(&w.Stream, &r.Stream, true)
	unless(&w.FinalText, &r.FinalText, true)
	unless(&w.Priority, &r.Priority, defaultPriority)
	if qos := int(r.StreamQoS); qos != 1 {
		w.StreamQoS = &qos
	}
	if r.Flush != defaultFlush {
		w.FlushMS = ms(r.Flush)
	}
	if r.Deadline != 0 {
		w.DeadlineMS = ms(r.Deadline)
	}
	if r.TTL != 0 {
		w.TTLMS = ms(r.TTL)
	}
	if !r.SentAt.IsZero() {
		w.SentAt = r.SentAt.UTC().Format(time.RFC3339Nano)
	}
	return encode(w)
}

// NewRequest returns a request of op with the defaults of the protocol, for the
// caller to fill in.
func NewRequest(op string) *Request {
	return &Request{
		Op: op, MaxTokens: defaultMaxTokens, RepeatPenalty: 1, Stream: true, StreamQoS: 1,
		Flush: defaultFlush, FinalText: true, Priority: defaultPriority,
	}
}

func set[T any](dst *T, v *T) {
	if v != nil {
		*dst = *v
	}
}

// unless sets *dst to v when *v is none of the values that absence means.
func unless[T comparable](dst **T, v *T, absent ...T) {
	for _, a := range absent {
		if *v == a {
			return
		}
	}
	*dst = v
}

func firstOf(a, b *string) *string {
	if a != nil {
		return a
	}
	return b
}

func ms(d time.Duration) *int64 {
	n := d.Milliseconds()
	return &n
}

// millis reads a duration in milliseconds; the bounds are checked before the
// multiplication, which could wrap.
func millis(dst *time.Duration, name string, v *int64, least, most time.Duration) error {
	if v == nil {
		return nil
	}
	if *v < least.Milliseconds() || *v > most.Milliseconds() {
		return Errorf(BadRequest, "%s %d: %d to %d", name, *v, least.Milliseconds(), most.Milliseconds())
	}
	*dst = time.Duration(*v) * time.Millisecond
	return nil
}
