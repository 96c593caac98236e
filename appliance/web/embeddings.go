// SPDX-License-Identifier: Apache-2.0

package web

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"

	"windhover/control"
)

// textsQuestion is the body of /v1/embeddings.
type textsQuestion struct {
	Model      string          `json:"model"`
	Input      json.RawMessage `json:"input"`
	Dimensions *int            `json:"dimensions"`
	Encoding   string          `json:"encoding_format"`
	User       string          `json:"user"`
}

// request checks the question and turns it into one of the protocol.
func (q *textsQuestion) request(h *handler) (*control.Request, error) {
	if q.Encoding != "" && q.Encoding != "float" && q.Encoding != "base64" {
		return nil, bad("encoding_format", "encoding_format %.40q: float or base64", q.Encoding)
	}
	r, err := h.fill(control.OpEmbed, &common{Model: q.Model, User: q.User})
	if err != nil {
		return nil, err
	}
	var one string
	switch {
	case !given(q.Input):
		return nil, bad("input", "input: a text, or a list of texts")
	case json.Unmarshal(q.Input, &one) == nil:
		r.Texts = []string{one}
	case json.Unmarshal(q.Input, &r.Texts) != nil:
		return nil, bad("input", "input is a text or a list of texts: token ids are not taken, they would be those of another model")
	}
	if len(r.Texts) == 0 {
		return nil, bad("input", "input has no texts")
	}
	for i, text := range r.Texts {
		if text == "" {
			return nil, bad("input", "input[%d] is empty", i)
		}
	}
	if q.Dimensions != nil {
		if r.Dimensions = *q.Dimensions; r.Dimensions < 1 {
			return nil, bad("dimensions", "dimensions %d: 1 or more", r.Dimensions)
		}
	}
	q.Input = nil // it is held once
	return r, nil
}

// vectorDoc is an embedding: numbers, or the base64 of their float32, little-endian.
type vectorDoc struct {
	Object string `json:"object"`
	Index  int    `json:"index"`
	Vector any    `json:"embedding"`
}

type vectorsDoc struct {
	Object string          `json:"object"`
	Data   []vectorDoc     `json:"data"`
	Model  string          `json:"model"`
	Usage  vectorsUsage    `json:"usage"`
	Timing *control.Timing `json:"timing,omitempty"` // ours
}

type vectorsUsage struct {
	Prompt int `json:"prompt_tokens"`
	Total  int `json:"total_tokens"`
}

// embeddings answers with a vector for each text, in their order.
func (h *handler) embeddings(w http.ResponseWriter, r *http.Request) {
	var q textsQuestion
	req, free := h.question(w, r, control.OpEmbed, &q, func() (*control.Request, error) { return q.request(h) })
	if req == nil {
		return
	}
	defer free()
	rc := http.NewResponseController(w)
	h.patient(rc)
	doc := vectorsDoc{Object: "list", Data: []vectorDoc{}}
	err := h.box.Ask(r.Context(), req, func(reply *control.Reply) error {
		switch {
		case reply.Vector != nil:
			doc.Data = append(doc.Data, vectorDoc{"embedding", reply.Vector.Index, encoded(reply.Vector.Numbers, q.Encoding)})
		case reply.Done != nil:
			u := usageOf(reply.Done)
			doc.Usage, doc.Timing = vectorsUsage{u.Prompt, u.Total}, reply.Done.Timing
			doc.Model = reply.Done.Model.Name
		}
		return nil
	})
	h.hurry(rc)
	if err != nil {
		writeError(w, withParam(err))
		return
	}
	writeJSON(w, http.StatusOK, doc)
}

// encoded is a vector in the form that the client wants.
func encoded(x []float32, format string) any {
	if format != "base64" {
		return x
	}
	raw := make([]byte, 0, 4*len(x))
	for _, v := range x {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return base64.StdEncoding.EncodeToString(raw)
}
