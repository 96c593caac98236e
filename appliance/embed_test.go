// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"windhover/control"
	"windhover/engine"
	"windhover/internal/testmodel"
)

// vectorsOver asks for embeddings over HTTP.
func (b *box) vectorsOver(t *testing.T, body string) (vectors [][]float32, prompt int, problem string) {
	t.Helper()
	var doc struct {
		Object string
		Model  string
		Data   []struct {
			Object    string
			Index     int
			Embedding json.RawMessage
		}
		Usage struct {
			Prompt int `json:"prompt_tokens"`
			Total  int `json:"total_tokens"`
		}
		Error *struct{ Message, Code, Param string }
	}
	_, data := b.ask(t, false, "POST", "/v1/embeddings", strings.NewReader(body))
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	if e := doc.Error; e != nil {
		return nil, 0, e.Code + " " + e.Param + ": " + e.Message
	}
	if doc.Object != "list" || doc.Model != "m" || doc.Usage.Total != doc.Usage.Prompt {
		t.Errorf("%s: %+v", body, doc)
	}
	for i, d := range doc.Data {
		var v []float32
		var text string
		if json.Unmarshal(d.Embedding, &text) == nil {
			raw, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			for ; len(raw) >= 4; raw = raw[4:] {
				v = append(v, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
			}
		} else if err := json.Unmarshal(d.Embedding, &v); err != nil {
			t.Fatal(err)
		}
		if d.Index != i || d.Object != "embedding" {
			t.Errorf("%s: entry %d is %q %d", body, i, d.Object, d.Index)
		}
		vectors = append(vectors, v)
	}
	return vectors, doc.Usage.Prompt, ""
}

// A text has the same numbers alone and in a list, over MQTT and over HTTP, as JSON and
// as base64: those of the engine.
func TestEmbeddingsAreAlike_P266(t *testing.T) {
	data := tinyModel(t, func(c *testmodel.Config) { c.Embeds = true })
	path := filepath.Join(t.TempDir(), "m.vqf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := engine.Load(path, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	texts := []string{"pump 3 runs dry", "Who are you?", "größer als 世界 <|im_end|>"}
	var want [][]float32
	req := engine.EmbedRequest{}
	for _, text := range texts {
		req.Texts = append(req.Texts, m.EmbedTokens(text))
	}
	if _, err := m.Embed(context.Background(), req, func(_ int, v []float32) error {
		want = append(want, v)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if slices.Equal(want[0], want[1]) {
		t.Fatal("two texts have the same vector")
	}

	b := startBox(t, nil)
	b.drop(t, "m.vqf", data)
	b.ready(t, "m")
	b.connected(t)
	c := b.client(t, "me")
	var got [][]float32
	send := func(r *control.Request) *control.Answer {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), waitFor)
		defer cancel()
		got = nil
		a, err := c.Send(ctx, r, func(reply *control.Reply) error {
			if reply.Vector != nil {
				got = append(got, reply.Vector.Numbers)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	same := func(how string, got [][]float32) {
		t.Helper()
		if len(got) != len(want) || !slices.EqualFunc(got, want, func(a, b []float32) bool { return slices.Equal(a, b) }) {
			t.Errorf("%s: other numbers than the engine's", how)
		}
	}
	r := control.NewRequest(control.OpEmbed)
	r.Texts = texts
	a := send(r)
	same("a list over MQTT", got)
	tokens := a.Done.Usage.Prompt
	var alone [][]float32
	for _, text := range texts {
		r := control.NewRequest(control.OpEmbed)
		r.Prompt = text
		alone = append(alone, send(r).Done.Embedding)
	}
	same("alone over MQTT", alone)
	for _, format := range []string{``, `,"encoding_format":"float"`, `,"encoding_format":"base64"`} {
		vectors, prompt, problem := b.vectorsOver(t, `{"model":"m","input":["pump 3 runs dry","Who are you?","größer als 世界 <|im_end|>"]`+format+`}`)
		same("HTTP"+format+problem, vectors)
		if prompt != tokens || prompt == 0 {
			t.Errorf("HTTP%s: %d tokens, over MQTT %d", format, prompt, tokens)
		}
	}
	vectors, _, problem := b.vectorsOver(t, `{"model":"m","input":"pump 3 runs dry","dimensions":5}`)
	if len(vectors) != 1 || len(vectors[0]) != 5 {
		t.Errorf("dimensions: %v %s", vectors, problem)
	}
	if docs := b.dimensions(t); docs != m.Dimensions() {
		t.Errorf("/v1/models says %d dimensions, the model has %d", docs, m.Dimensions())
	}
	for _, tt := range []struct{ body, says string }{
		{`{"model":"m","input":"a","dimensions":100000}`, "bad_request dimensions: dimensions 100000"},
		{`{"model":"m","input":["a","` + strings.Repeat("a b ", 9000) + `"]}`, "context_length_exceeded : text 1"},
		{`{"model":"m","input":[` + strings.Repeat(`"a",`, 2048) + `"a"]}`, "bad_request "},
	} {
		if _, _, problem := b.vectorsOver(t, tt.body); !strings.HasPrefix(problem, tt.says) {
			t.Errorf("%.60s: %q, want %q", tt.body, problem, tt.says)
		}
	}
}

// dimensions is how many numbers an embedding of the model has that /v1/models lists.
func (b *box) dimensions(t *testing.T) int {
	t.Helper()
	var doc struct {
		Data []struct {
			Embeds int `json:"embedding_dimensions"`
		}
	}
	_, data := b.ask(t, false, "GET", "/v1/models", nil)
	if err := json.Unmarshal(data, &doc); err != nil || len(doc.Data) != 1 {
		t.Fatalf("%s: %v", data, err)
	}
	return doc.Data[0].Embeds
}

// A model that continues text refuses, and says what to ask instead.
func TestEmbeddingsOfAnotherModel_P267(t *testing.T) {
	b := startBox(t, nil)
	b.drop(t, "m.vqf", tinyModel(t, nil))
	b.ready(t, "m")
	if _, _, problem := b.vectorsOver(t, `{"model":"m","input":"a"}`); !strings.HasPrefix(problem, "unsupported : model m makes no embeddings") {
		t.Errorf("got %q", problem)
	}
	if n := b.dimensions(t); n != 0 {
		t.Errorf("/v1/models says %d dimensions", n)
	}
}
