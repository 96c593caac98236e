// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"strings"
)

// check holds the fields against each other and against their limits.
func (r *Request) check(w *wireRequest) error {
	switch {
	case r.MaxTokens < 1 || r.MaxTokens > maxMaxTokens:
		return Errorf(BadRequest, "max_tokens %d: 1 to %d", r.MaxTokens, maxMaxTokens)
	case r.Temperature != nil && !(*r.Temperature >= 0 && *r.Temperature <= 100):
		return Errorf(BadRequest, "temperature %v: 0 to 100", *r.Temperature)
	case r.TopP != nil && !(*r.TopP > 0 && *r.TopP <= 1):
		return Errorf(BadRequest, "top_p %v: above 0, at most 1", *r.TopP)
	case r.TopK != nil && *r.TopK < 0:
		return Errorf(BadRequest, "top_k %d: 0 (off) or more", *r.TopK)
	case !(r.MinP >= 0 && r.MinP <= 1):
		return Errorf(BadRequest, "min_p %v: 0 to 1", r.MinP)
	case !(r.RepeatPenalty > 0 && r.RepeatPenalty <= 100):
		return Errorf(BadRequest, "repeat_penalty %v: above 0, at most 100", r.RepeatPenalty)
	case r.Priority < 0 || r.Priority > lowestPriority:
		return Errorf(BadRequest, "priority %d: 0 (first) to %d", r.Priority, lowestPriority)
	case r.Truncate != "" && r.Truncate != TruncateOldest && r.Truncate != TruncateMiddle:
		return Errorf(BadRequest, "truncate %.40q: leave it out, or say \"oldest\" or \"middle\"", r.Truncate)
	case r.ThinkBudget < 0:
		return Errorf(BadRequest, "think_budget %d: 0 or more", r.ThinkBudget)
	case r.FromSeq < 0:
		return Errorf(BadRequest, "from_seq %d: 0 or more", r.FromSeq)
	case r.Model != "" && !ValidModel(r.Model):
		return Errorf(BadRequest, "model %.80q: use 1 to 128 of A-Z a-z 0-9 . _ - @", r.Model)
	}
	if len(r.Stop) > maxStops {
		return Errorf(BadRequest, "stop has %d strings, at most %d", len(r.Stop), maxStops)
	}
	for _, s := range r.Stop {
		if s == "" || len(s) > maxStopBytes {
			return Errorf(BadRequest, "stop: each string has 1 to %d bytes", maxStopBytes)
		}
	}
	if err := r.CheckForm(); err != nil {
		return err
	}
	switch r.Op {
	case OpGenerate:
		if w.Prompt == nil || r.Prompt == "" {
			return Errorf(BadRequest, "generate needs a prompt")
		}
	case OpChat:
		return r.checkChat()
	case OpEmbed:
		return r.checkTexts()
	case OpTokenize:
		if w.Prompt == nil && w.Text == nil {
			return Errorf(BadRequest, "tokenize needs a text")
		}
	case OpCancel, OpFetch:
		if !ValidID(r.Target) {
			return Errorf(BadRequest, "%s needs a target, the id of the other request", r.Op)
		}
	}
	return nil
}

// checkChat checks the messages; a chat with a prompt alone is one user message.
func (r *Request) checkChat() error {
	if len(r.Messages) == 0 && r.Prompt != "" {
		r.Messages = []Message{{Role: "user", Content: Content{Text: r.Prompt}}}
		r.Prompt = ""
	}
	if len(r.Messages) == 0 {
		return Errorf(BadRequest, "chat needs messages")
	}
	if len(r.Messages) > maxMessages {
		return Errorf(BadRequest, "%d messages, at most %d", len(r.Messages), maxMessages)
	}
	for i, m := range r.Messages {
		switch m.Role {
		case "system", "user", "assistant", "tool":
		default:
			return Errorf(BadRequest, "messages[%d]: role %.40q: system, user, assistant or tool", i, m.Role)
		}
		for j := range m.Content.Parts {
			if problem := m.Content.Parts[j].problem(); problem != "" {
				return Errorf(BadRequest, "messages[%d].content[%d]: %s", i, j, problem)
			}
		}
	}
	return nil
}

// checkTexts checks what is to be embedded: one text, or a list.
func (r *Request) checkTexts() error {
	switch {
	case r.Dimensions < 0:
		return Errorf(BadRequest, "dimensions %d: 1 or more", r.Dimensions)
	case r.Texts == nil && r.Prompt == "":
		return Errorf(BadRequest, "embed needs a text, or texts")
	case r.Texts == nil:
		return nil
	case r.Prompt != "":
		return Errorf(BadRequest, "text and texts: one of them")
	case len(r.Texts) == 0 || len(r.Texts) > maxTexts:
		return Errorf(BadRequest, "texts has %d, 1 to %d", len(r.Texts), maxTexts)
	}
	for i, text := range r.Texts {
		if text == "" {
			return Errorf(BadRequest, "texts[%d] is empty", i)
		}
	}
	return nil
}

// problem says what is wrong with a part; "" for nothing.
func (p *Part) problem() string {
	switch p.Type {
	case "text":
		return ""
	case "image":
		return p.Picture.problem("an image")
	case "video":
	default:
		return fmt.Sprintf("type %.40q: text, image or video", p.Type)
	}
	switch {
	case len(p.Frames) == 0 || len(p.Frames) > maxFrames:
		return fmt.Sprintf("a video has 1 to %d frames, not %d", maxFrames, len(p.Frames))
	case !(p.FPS >= 0 && p.FPS <= maxFPS):
		return fmt.Sprintf("fps %v: above 0, at most %d", p.FPS, maxFPS)
	}
	for i := range p.Frames {
		if problem := p.Frames[i].problem(fmt.Sprintf("frames[%d]", i)); problem != "" {
			return problem
		}
	}
	return ""
}

func (p *Picture) problem(what string) string {
	switch {
	case (len(p.Data) > 0) == (p.File != ""):
		return what + " has data or file, one of them"
	case p.File != "" && !ValidFile(p.File):
		return fmt.Sprintf("file %.80q: give the name of a file in import/", p.File)
	}
	return ""
}

// ValidFile says whether s can name a file in import/: a name, no path, and none
// that is hidden.
func ValidFile(s string) bool {
	return s != "" && len(s) <= maxFileName && s[0] != '.' && !strings.ContainsAny(s, "/\\\x00")
}

// ValidModel says whether s can name a model in a request: name or name@version.
func ValidModel(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			c == '.' || c == '_' || c == '-' || c == '@') {
			return false
		}
	}
	return true
}
