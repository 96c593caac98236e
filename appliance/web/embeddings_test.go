// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"windhover/control"
)

const vectorsPath = "/v1/embeddings"

// vectors is a box that embeds a text as its length.
func vectors(_ context.Context, r *control.Request, reply func(*control.Reply) error) error {
	if err := reply(&control.Reply{Type: control.TypeAccepted, Accepted: &control.Accepted{Model: "tiny@1"}}); err != nil {
		return err
	}
	for i, text := range r.Texts {
		if err := reply(&control.Reply{Type: control.TypeVector, Vector: &control.Vector{Index: i, Numbers: []float32{float32(len(text)), 0.1}}}); err != nil {
			return err
		}
	}
	return reply(&control.Reply{Type: control.TypeDone, Done: &control.Done{
		Usage: &control.Usage{Prompt: 7}, Model: &control.ModelRef{Name: "tiny"}, Timing: &control.Timing{TotalMS: 3},
	}})
}

func TestEmbeddings_P268(t *testing.T) {
	b := &fakeBox{ask: vectors}
	for _, tt := range []struct{ body, want string }{
		{`{"model":"tiny","input":"abc","user":"me","dimensions":2,"encoding_format":"float"}`, `[{"object":"embedding","index":0,"embedding":[3,0.1]}]`},
		{`{"input":["a","bb"]}`, `[{"object":"embedding","index":0,"embedding":[1,0.1]},{"object":"embedding","index":1,"embedding":[2,0.1]}]`},
		{`{"input":"a","encoding_format":"base64"}`, `[{"object":"embedding","index":0,"embedding":"AACAP83MzD0="}]`},
	} {
		w := do(New(b, Options{Client: "http"}), "POST", vectorsPath, tt.body)
		var doc struct {
			Object, Model string
			Data          json.RawMessage
			Usage         struct {
				Prompt int `json:"prompt_tokens"`
				Total  int `json:"total_tokens"`
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || w.Code != 200 {
			t.Fatalf("%d %s: %v", w.Code, w.Body, err)
		}
		if string(doc.Data) != tt.want || doc.Object != "list" || doc.Model != "tiny" || doc.Usage.Prompt != 7 || doc.Usage.Total != 7 {
			t.Errorf("%s: %s", tt.body, w.Body)
		}
	}
	if r := b.asked[0]; r.Client != "http:me" || r.Model != "tiny" || r.Dimensions != 2 || r.Op != control.OpEmbed || !slices.Equal(r.Texts, []string{"abc"}) || r.Received == "" {
		t.Errorf("asked %+v", r)
	}
}

func TestEmbeddingsRefused_P268(t *testing.T) {
	for _, tt := range []struct{ body, code, param string }{
		{`{}`, "bad_request", "input"},
		{`{"input":null}`, "bad_request", "input"},
		{`{"input":""}`, "bad_request", "input"},
		{`{"input":[]}`, "bad_request", "input"},
		{`{"input":["a",""]}`, "bad_request", "input"},
		{`{"input":[1,2,3]}`, "bad_request", "input"},
		{`{"input":[[1,2],[3]]}`, "bad_request", "input"},
		{`{"input":{"a":1}}`, "bad_request", "input"},
		{`{"input":"a","dimensions":0}`, "bad_request", "dimensions"},
		{`{"input":"a","dimensions":"5"}`, "bad_request", "dimensions"},
		{`{"input":"a","encoding_format":"int8"}`, "bad_request", "encoding_format"},
		{`{"input":`, "bad_request", ""},
	} {
		var refused []control.Audited
		b := &fakeBox{ask: vectors}
		w := do(New(b, Options{Refused: func(a control.Audited) { refused = append(refused, a) }}), "POST", vectorsPath, tt.body)
		e := errorOf(t, w)
		param := ""
		if e.Param != nil {
			param = *e.Param
		}
		if w.Code != 400 || e.Code != tt.code || param != tt.param {
			t.Errorf("%s: %d %s of %q: %s", tt.body, w.Code, e.Code, param, e.Message)
		}
		if len(b.asked) != 0 || len(refused) != 1 || refused[0].Op != control.OpEmbed || refused[0].Code != tt.code {
			t.Errorf("%s: asked %d times, records %+v", tt.body, len(b.asked), refused)
		}
	}
}
