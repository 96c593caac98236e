// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"windhover/control"
)

// fakeBox is a Box with function fields; a nil field answers in the plainest way.
type fakeBox struct {
	ask  func(ctx context.Context, r *control.Request, reply func(*control.Reply) error) error
	drop func(ctx context.Context, name string, size int64, r io.Reader) (int64, error)
	view View

	mu    sync.Mutex
	asked []*control.Request
}

var _ Box = (*fakeBox)(nil)

func (b *fakeBox) Ask(ctx context.Context, r *control.Request, reply func(*control.Reply) error) error {
	b.mu.Lock()
	b.asked = append(b.asked, r)
	b.mu.Unlock()
	if b.ask != nil {
		return b.ask(ctx, r, reply)
	}
	return say(reply, "größer ", "als 世界")
}

func (b *fakeBox) Models() []control.Model {
	return []control.Model{
		{Name: "old", State: "failed"},
		{Name: "small", State: ready, Context: 100},
		{Name: "tiny", Version: "1", SHA256: "0123456789abcdef0123", State: ready, Default: true, Context: 8192, Pictures: &control.Pictures{}},
	}
}

func (b *fakeBox) View() View { return b.view }

func (b *fakeBox) Drop(ctx context.Context, name string, size int64, r io.Reader) (int64, error) {
	if b.drop != nil {
		return b.drop(ctx, name, size, r)
	}
	return io.Copy(io.Discard, r)
}

// last is the request that was asked last; nil: none.
func (b *fakeBox) last() *control.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.asked) == 0 {
		return nil
	}
	return b.asked[len(b.asked)-1]
}

// say answers with pieces.
func say(reply func(*control.Reply) error, pieces ...string) error {
	list := []*control.Reply{
		{Type: control.TypeAccepted, ID: "w-1", Accepted: &control.Accepted{Model: "tiny@1"}},
		{Type: control.TypeProgress, ID: "w-1", Progress: &control.Progress{Phase: "prefill", Done: 5, Total: 5}},
		{Type: control.TypeDelta, ID: "w-1", Delta: &control.Delta{Thinking: "hm", N: 1}},
	}
	for _, p := range pieces {
		list = append(list, &control.Reply{Type: control.TypeDelta, ID: "w-1", Delta: &control.Delta{Text: p, N: 1}})
	}
	list = append(list, &control.Reply{Type: control.TypeDone, ID: "w-1", Done: &control.Done{
		Finish: control.FinishStop, Usage: &control.Usage{Prompt: 5, Completion: 3, Cached: 4},
		Model: &control.ModelRef{Name: "tiny", Version: "1", SHA256: "0123456789abcdef0123"}, Timing: &control.Timing{DecodeTPS: 9.5},
	}})
	for _, r := range list {
		if err := reply(r); err != nil {
			return err
		}
	}
	return nil
}

// do asks a handler once.
func do(h http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// errorOf reads an answer that has to be an error in OpenAI's shape.
func errorOf(t *testing.T, w *httptest.ResponseRecorder) shapeBody {
	t.Helper()
	var s shape
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil || s.Error.Message == "" || s.Error.Type == "" || s.Error.Code == "" {
		t.Fatalf("status %d: %q is no error of this interface (%v)", w.Code, w.Body, err)
	}
	return s.Error
}

// decode reads a document.
func decode(t *testing.T, p []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(p, &m); err != nil {
		t.Fatalf("%v in %s", err, p)
	}
	return m
}
