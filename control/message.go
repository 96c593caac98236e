// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// Reply types, the "t" of a message below res/ (docs/PROTOCOL.md, "Replies").
const (
	TypeAccepted = "accepted"
	TypeProgress = "progress"
	TypeDelta    = "delta"
	TypeVector   = "embedding"
	TypeDone     = "done"
	TypeError    = "error"
)

// Reasons a generation ended, the "finish" of done.
const (
	FinishStop     = "stop"
	FinishLength   = "length"
	FinishCancel   = "cancel"
	FinishDeadline = "deadline"
	FinishCalls    = "tool_calls" // as stop, and there are calls of tools
)

// Reply is one message of the device about one request. Exactly one of the pointers
// is set, the one that Type names.
type Reply struct {
	Type string
	ID   string
	Seq  int // counts every reply of the id from 0

	Accepted *Accepted
	Progress *Progress
	Delta    *Delta
	Vector   *Vector
	Done     *Done
	Err      *Error
}

// Terminal says whether nothing follows this reply.
func (r *Reply) Terminal() bool { return r.Type == TypeDone || r.Type == TypeError }

// Accepted says that the request will be answered.
type Accepted struct {
	Queue int    `json:"queue"`           // requests before this one, 0: it runs now
	Model string `json:"model,omitempty"` // name@version
}

// Progress says how far a phase is, in tokens.
type Progress struct {
	Phase string `json:"phase"`
	Done  int    `json:"done"`
	Total int    `json:"total"`
}

// Delta is the next piece of the answer: one of text, thinking, a call of a tool and
// logprobs.
type Delta struct {
	Text     string         `json:"text,omitempty"`
	Thinking string         `json:"thinking,omitempty"`
	ToolCall *ToolCall      `json:"tool_call,omitempty"`
	Logprobs []TokenLogprob `json:"logprobs,omitempty"`
	N        int            `json:"n"` // tokens in this piece
}

// ToolCall is a call of a tool by the model. Where one is too long for a delta, its
// arguments come in pieces, of which the first alone has ID and Name.
type ToolCall struct {
	Index     int    `json:"index"` // from 0, in the order of the answer
	ID        string `json:"id,omitempty"`
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"` // a JSON object, as text
}

// TokenLogprob is a token of the answer with the natural logarithm of the probability
// that the model gave it, before all that bears on the choice.
type TokenLogprob struct {
	Token   string         `json:"token"`
	ID      int32          `json:"id"`
	Logprob float32        `json:"logprob"`
	Bytes   []byte         `json:"bytes,omitempty"` // where Token is not all of it: a part of a character
	Top     []TokenLogprob `json:"top,omitempty"`   // the best tokens in its place, best first
}

// Vector is the embedding of a text of a list, of length 1.
type Vector struct {
	Index   int       `json:"index"` // of the text, from 0
	Numbers []float32 `json:"embedding"`
}

// Done is the end of a request that was carried out.
type Done struct {
	Text        *string    `json:"text,omitempty"` // nil where there is none or it was left out
	Thinking    string     `json:"thinking,omitempty"`
	ToolCalls   []ToolCall `json:"tool_calls,omitempty"`
	BadToolCall bool       `json:"tool_call_malformed,omitempty"` // something like a call stands in the text
	Finish      string     `json:"finish,omitempty"`
	TextOmitted bool       `json:"text_omitted,omitempty"`
	Bytes       int        `json:"bytes,omitempty"`  // of the text that was left out
	SHA256      string     `json:"sha256,omitempty"` // of the text that was left out
	Usage       *Usage     `json:"usage,omitempty"`
	Timing      *Timing    `json:"timing,omitempty"`
	Model       *ModelRef  `json:"model,omitempty"`
	IDs         []int32    `json:"ids,omitempty"`       // tokenize
	Embedding   []float32  `json:"embedding,omitempty"` // embed, of a text that is not in a list
	Found       *bool      `json:"found,omitempty"`     // cancel, fetch
}

// Usage counts tokens, and pictures.
type Usage struct {
	Prompt        int `json:"prompt"`
	Completion    int `json:"completion"`
	Cached        int `json:"cached"`
	Pictures      int `json:"pictures,omitempty"`       // a video is one
	PicturesKnown int `json:"pictures_known,omitempty"` // of them, not computed again
}

// Timing of a generation. queue_ms, ttft_ms and total_ms count from its acceptance.
type Timing struct {
	QueueMS    int64   `json:"queue_ms"`
	TTFTMS     int64   `json:"ttft_ms"`
	PrefillTPS float64 `json:"prefill_tps"`
	DecodeTPS  float64 `json:"decode_tps"`
	TotalMS    int64   `json:"total_ms"`
}

// ModelRef names the weights that answered.
type ModelRef struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	SHA256  string `json:"sha256,omitempty"`
}

// String returns name@version.
func (m ModelRef) String() string {
	if m.Version == "" {
		return m.Name
	}
	return m.Name + "@" + m.Version
}

// errorBody is the wire form of an Error.
type errorBody struct {
	Code         string `json:"code"`
	Status       int    `json:"status"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
	Message      string `json:"message"`
	Needed       int64  `json:"needed_bytes,omitempty"`
	Available    *int64 `json:"available_bytes,omitempty"`
	Incident     string `json:"incident,omitempty"`
}

// MarshalJSON writes the wire form of an error object.
func (e *Error) MarshalJSON() ([]byte, error) {
	b := errorBody{
		Code: e.Code.Name, Status: e.Code.Status, Message: e.Message,
		RetryAfterMS: e.RetryAfter.Milliseconds(), Needed: e.Needed, Incident: e.Incident,
	}
	if e.Needed != 0 {
		b.Available = &e.Available
	}
	return encode(b)
}

// UnmarshalJSON reads the wire form of an error object.
func (e *Error) UnmarshalJSON(p []byte) error {
	var b errorBody
	if err := json.Unmarshal(p, &b); err != nil {
		return err
	}
	*e = Error{
		Code: codeByName(b.Code, b.Status), Message: b.Message, Needed: b.Needed, Incident: b.Incident,
		RetryAfter: time.Duration(b.RetryAfterMS) * time.Millisecond,
	}
	if b.Available != nil {
		e.Available = *b.Available
	}
	return nil
}

type head struct {
	T   string `json:"t"`
	ID  string `json:"id"`
	Seq int    `json:"seq"`
}

// Encode returns the wire form, one JSON object without a line end.
func (r *Reply) Encode() ([]byte, error) {
	h := head{r.Type, r.ID, r.Seq}
	switch {
	case r.Type == TypeAccepted && r.Accepted != nil:
		return encode(struct {
			head
			*Accepted
		}{h, r.Accepted})
	case r.Type == TypeProgress && r.Progress != nil:
		return encode(struct {
			head
			*Progress
		}{h, r.Progress})
	case r.Type == TypeDelta && r.Delta != nil:
		return encode(struct {
			head
			*Delta
		}{h, r.Delta})
	case r.Type == TypeVector && r.Vector != nil:
		return encode(struct {
			head
			*Vector
		}{h, r.Vector})
	case r.Type == TypeDone && r.Done != nil:
		return encode(struct {
			head
			*Done
		}{h, r.Done})
	case r.Type == TypeError && r.Err != nil:
		return encode(struct {
			head
			Error *Error `json:"error"`
		}{h, r.Err})
	}
	return nil, fmt.Errorf("control: reply of type %q has no such body", r.Type)
}

// DecodeReply reads a message below res/. Unknown fields are ignored; an unknown
// type is an error.
func DecodeReply(p []byte) (*Reply, error) {
	var h head
	if err := json.Unmarshal(p, &h); err != nil {
		return nil, fmt.Errorf("control: reply: %w", err)
	}
	if h.Seq < 0 {
		return nil, fmt.Errorf("control: reply of %q: seq %d is negative", h.ID, h.Seq)
	}
	r := &Reply{Type: h.T, ID: h.ID, Seq: h.Seq}
	var err error
	switch h.T {
	case TypeAccepted:
		r.Accepted = new(Accepted)
		err = json.Unmarshal(p, r.Accepted)
	case TypeProgress:
		r.Progress = new(Progress)
		err = json.Unmarshal(p, r.Progress)
	case TypeDelta:
		r.Delta = new(Delta)
		err = json.Unmarshal(p, r.Delta)
	case TypeVector:
		r.Vector = new(Vector)
		err = json.Unmarshal(p, r.Vector)
	case TypeDone:
		r.Done = new(Done)
		err = json.Unmarshal(p, r.Done)
	case TypeError:
		var b struct {
			Error *Error `json:"error"`
		}
		if err = json.Unmarshal(p, &b); err == nil && b.Error == nil {
			err = fmt.Errorf("no error object")
		}
		r.Err = b.Error
	default:
		err = fmt.Errorf("type %q is unknown", h.T)
	}
	if err != nil {
		return nil, fmt.Errorf("control: reply of %q: %w", h.ID, err)
	}
	return r, nil
}

// encode is json.Marshal without the escaping of <, > and &, which would only make
// code and markup in answers longer.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
