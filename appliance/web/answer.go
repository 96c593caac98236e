// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"net/http"
	"strings"

	"windhover/control"
)

func (h *handler) chat(w http.ResponseWriter, r *http.Request) {
	var q chatQuestion
	h.answer(w, r, control.OpChat, &q, &q.common, func() (*control.Request, error) { return q.request(h) }, chatStyle{})
}

func (h *handler) completion(w http.ResponseWriter, r *http.Request) {
	var q plainQuestion
	h.answer(w, r, control.OpGenerate, &q, &q.common, func() (*control.Request, error) { return q.request(h) }, &plainStyle{})
}

// answer reads a question, has it answered and writes the answer, whole or as events.
func (h *handler) answer(w http.ResponseWriter, r *http.Request, op string, q any, c *common, request func() (*control.Request, error), as style) {
	req, free := h.question(w, r, op, q, request)
	if req == nil {
		return
	}
	defer free()
	req.Stream = c.Stream
	if c.Stream {
		s := &events{h: h, w: w, rc: http.NewResponseController(w), as: as, usage: c.StreamOptions != nil && c.StreamOptions.IncludeUsage}
		s.run(r, req)
		return
	}
	h.whole(w, r, req, as)
}

// question reads a question into q and makes a request of it, whose memory free gives
// back. One that cannot be asked is answered here: nil then.
func (h *handler) question(w http.ResponseWriter, r *http.Request, op string, q any, request func() (*control.Request, error)) (req *control.Request, free func()) {
	free, received, err := h.body(w, r, q)
	if err == nil {
		if req, err = request(); err == nil {
			req.Received = received
			return req, free
		}
		free()
	}
	h.opt.Refused(control.Audited{Op: op, Client: h.opt.Client + ":", Local: true, Request: received, Code: problemOf(err).Code.Name})
	writeError(w, err)
	return nil, nil
}

// whole answers with one document.
func (h *handler) whole(w http.ResponseWriter, r *http.Request, req *control.Request, as style) {
	req.Stream = true // pieces come as they are made, whatever the length of the answer
	rc := http.NewResponseController(w)
	h.patient(rc)
	var said said
	var head head
	var done *control.Done
	err := h.box.Ask(r.Context(), req, func(reply *control.Reply) error {
		switch {
		case reply.Accepted != nil:
			head = h.head(as, reply)
		case reply.Delta != nil:
			said.add(reply.Delta)
		case reply.Done != nil:
			done = reply.Done
		}
		return nil
	})
	h.hurry(rc)
	if err != nil {
		writeError(w, withParam(err))
		return
	}
	head.name(done.Model)
	writeJSON(w, http.StatusOK, as.whole(head, &said, done))
}

// said is an answer as its pieces add up.
type said struct {
	text, thinking strings.Builder
	logprobs       []control.TokenLogprob
	calls          []control.ToolCall
}

func (s *said) add(d *control.Delta) {
	s.text.WriteString(d.Text)
	s.thinking.WriteString(d.Thinking)
	s.logprobs = append(s.logprobs, d.Logprobs...)
	switch c := d.ToolCall; {
	case c == nil:
	case c.Index < len(s.calls): // a long one comes in pieces
		s.calls[c.Index].Arguments += c.Arguments
	default:
		s.calls = append(s.calls, *c)
	}
}

// head is what every document and event of an answer begins with.
type head struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	Model       string `json:"model"`
	Fingerprint string `json:"system_fingerprint,omitempty"`
}

func (h *handler) head(as style, reply *control.Reply) head {
	prefix, _, event := as.names()
	name, _, _ := strings.Cut(reply.Accepted.Model, "@")
	return head{ID: prefix + reply.ID, Object: event, Created: h.opt.Now().Unix(), Model: name}
}

// name tells which model really answered.
func (h *head) name(m *control.ModelRef) {
	if m == nil || m.Name == "" {
		return
	}
	h.Model = m.Name
	if m.SHA256 != "" {
		h.Fingerprint = "fp_" + m.SHA256[:min(16, len(m.SHA256))]
	}
}

// usage counts tokens as OpenAI does.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

func usageOf(d *control.Done) usage {
	var u usage
	if d.Usage != nil {
		u.Prompt, u.Completion, u.Total = d.Usage.Prompt, d.Usage.Completion, d.Usage.Prompt+d.Usage.Completion
		u.Details.Cached = d.Usage.Cached
	}
	return u
}

// finish is the reason in OpenAI's words. An answer that somebody else's cancel, a
// deadline or the end of the daemon cut is one that is not whole: length.
func finish(d *control.Done) string {
	switch d.Finish {
	case control.FinishCancel, control.FinishDeadline:
		return control.FinishLength
	}
	return cmp.Or(d.Finish, control.FinishStop)
}

// style is how one of the two kinds of answers is written.
type style interface {
	// names are what ids begin with, and the objects of the whole answer and of an event.
	names() (prefix, whole, event string)
	whole(head head, s *said, d *control.Done) any
	// first is the event before the first text; nil: none.
	first(head head) any
	piece(head head, d *control.Delta) any
	last(head head, d *control.Done) any
	usage(head head, d *control.Done) any
}

// chatStyle writes chat.completion and chat.completion.chunk.
type chatStyle struct{}

type chatMessage struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
}

// toolCall is a call of a function, or in an event a piece of one.
type toolCall struct {
	Index    *int   `json:"index,omitempty"` // in events
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func toolCallOf(c control.ToolCall) toolCall {
	t := toolCall{ID: c.ID}
	if c.ID != "" {
		t.Type = "function"
	}
	t.Function.Name, t.Function.Arguments = c.Name, c.Arguments
	return t
}

type chatChoice struct {
	Index    int           `json:"index"`
	Message  *chatMessage  `json:"message,omitempty"`
	Delta    *chatMessage  `json:"delta,omitempty"`
	Logprobs *chatLogprobs `json:"logprobs"`
	Finish   *string       `json:"finish_reason"`
}

type chatAnswer struct {
	head
	Choices []chatChoice    `json:"choices"`
	Usage   *usage          `json:"usage,omitempty"`
	Timing  *control.Timing `json:"timing,omitempty"` // ours
}

func (chatStyle) names() (prefix, whole, event string) {
	return "chatcmpl-", "chat.completion", "chat.completion.chunk"
}

func (c chatStyle) whole(h head, s *said, d *control.Done) any {
	_, h.Object, _ = c.names()
	f, u, text := finish(d), usageOf(d), s.text.String()
	m := chatMessage{Role: "assistant", Content: &text, Reasoning: s.thinking.String()}
	for _, c := range s.calls {
		m.ToolCalls = append(m.ToolCalls, toolCallOf(c))
	}
	return chatAnswer{h, []chatChoice{{Message: &m, Logprobs: chatLogprobsOf(s.logprobs), Finish: &f}}, &u, d.Timing}
}

func (chatStyle) first(h head) any {
	return chatAnswer{head: h, Choices: []chatChoice{{Delta: &chatMessage{Role: "assistant", Content: new(string)}}}}
}

func (chatStyle) piece(h head, d *control.Delta) any {
	m := chatMessage{Reasoning: d.Thinking}
	if d.Text != "" {
		m.Content = &d.Text
	}
	if d.ToolCall != nil {
		t := toolCallOf(*d.ToolCall)
		t.Index = &d.ToolCall.Index
		m.ToolCalls = []toolCall{t}
	}
	return chatAnswer{head: h, Choices: []chatChoice{{Delta: &m, Logprobs: chatLogprobsOf(d.Logprobs)}}}
}

func (chatStyle) last(h head, d *control.Done) any {
	f := finish(d)
	return chatAnswer{head: h, Choices: []chatChoice{{Delta: &chatMessage{}, Finish: &f}}, Timing: d.Timing}
}

func (chatStyle) usage(h head, d *control.Done) any {
	u := usageOf(d)
	return chatAnswer{head: h, Choices: []chatChoice{}, Usage: &u}
}

// plainStyle writes text_completion, whole or in pieces. at is where the next piece begins.
type plainStyle struct{ at place }

type plainChoice struct {
	Index    int            `json:"index"`
	Text     string         `json:"text"`
	Logprobs *plainLogprobs `json:"logprobs"`
	Finish   *string        `json:"finish_reason"`
}

type plainAnswer struct {
	head
	Choices []plainChoice   `json:"choices"`
	Usage   *usage          `json:"usage,omitempty"`
	Timing  *control.Timing `json:"timing,omitempty"` // ours
}

func (*plainStyle) names() (prefix, whole, event string) {
	return "cmpl-", "text_completion", "text_completion"
}

func (p *plainStyle) whole(h head, s *said, d *control.Done) any {
	f, u := finish(d), usageOf(d)
	return plainAnswer{h, []plainChoice{{Text: s.text.String(), Logprobs: plainLogprobsOf(s.logprobs, &p.at), Finish: &f}}, &u, d.Timing}
}

func (*plainStyle) first(head) any { return nil }

func (p *plainStyle) piece(h head, d *control.Delta) any {
	return plainAnswer{head: h, Choices: []plainChoice{{Text: d.Text, Logprobs: plainLogprobsOf(d.Logprobs, &p.at)}}}
}

func (*plainStyle) last(h head, d *control.Done) any {
	f := finish(d)
	return plainAnswer{head: h, Choices: []plainChoice{{Finish: &f}}, Timing: d.Timing}
}

func (*plainStyle) usage(h head, d *control.Done) any {
	u := usageOf(d)
	return plainAnswer{head: h, Choices: []plainChoice{}, Usage: &u}
}
