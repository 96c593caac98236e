// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"windhover/control"
)

func TestToken_P177(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("secret")) })
	h := Guard(func() Door { return Door{TokenFile: file} }, served)
	get := func(path, authorization string) int {
		var w *httptest.ResponseRecorder
		if authorization != "" {
			w = do(h, "GET", path, "", "Authorization", authorization)
		} else {
			w = do(h, "GET", path, "")
		}
		if w.Code == 401 {
			if e := errorOf(t, w); e.Type != "authentication_error" || e.Code != "invalid_api_key" || w.Header().Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%q: refused with %s, %v", authorization, w.Body, w.Header())
			}
		}
		return w.Code
	}
	tests := []struct {
		file, authorization string
		want                int
	}{
		{"", "", 401}, // no file yet: nobody
		{"", "Bearer ", 401},
		{"\n", "Bearer ", 401}, // an empty token is none
		{"abc\n", "", 401},
		{"abc\n", "Bearer abc", 200},
		{"abc\n", "bearer abc", 200}, // RFC 9110: in any case
		{"abc\n", "Bearer abcd", 401},
		{"abc\n", "Bearer ab", 401},
		{"abc\n", "Bearer", 401},
		{"abc\n", "Basic abc", 401},
		{"abc\n", "abc", 401},
		{"new\n", "Bearer abc", 401}, // rotated without a restart
		{"new\n", "Bearer new", 200},
	}
	for _, tt := range tests {
		if tt.file != "" {
			if err := os.WriteFile(file, []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, path := range []string{"/metrics", "/v1/models", "/panel"} {
			if got := get(path, tt.authorization); got != tt.want {
				t.Errorf("%s: token %q, %q: got %d, want %d", path, tt.file, tt.authorization, got, tt.want)
			}
		}
	}
	// The page comes without a token, and tells nothing.
	b := &fakeBox{view: View{Device: "hidden-name"}}
	h = Guard(func() Door { return Door{TokenFile: file} }, New(b, Options{}))
	if w := do(h, "GET", "/", ""); w.Code != 200 || strings.Contains(w.Body.String(), "hidden-name") || !strings.Contains(w.Body.String(), `id="unlock"`) {
		t.Errorf("the page without a token: %d %s", w.Code, w.Body)
	}
	for _, method := range []string{"GET", "HEAD"} { // what GET gives without a token HEAD tells of
		for _, path := range []string{"/", "/assets/page.js"} {
			if w := do(h, method, path, ""); w.Code != 200 {
				t.Errorf("%s %s: %d", method, path, w.Code)
			}
		}
	}
	if w := do(h, "GET", "/", "", "Authorization", "Bearer new"); !strings.Contains(w.Body.String(), "hidden-name") {
		t.Errorf("the page with the token: %s", w.Body)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got := get("/v1/models", "Bearer new"); got != 401 {
		t.Errorf("without the file: got %d", got)
	}
}

// Without a token, only names that no other site can point here are answered.
func TestHost_P176(t *testing.T) {
	h := Guard(func() Door { return Door{Hosts: []string{"edge1", "edge1.local"}} }, New(&fakeBox{}, Options{}))
	for host, want := range map[string]int{
		"localhost": 200, "localhost:8417": 200, "LOCALHOST.": 200, "a.localhost:1": 200, "127.0.0.1:8417": 200, "[::1]:8417": 200, "[::1]": 200,
		"192.168.1.7": 200, "edge1:8417": 200, "Edge1.local": 200,
		"evil.example": 403, "evil.example:8417": 403, "127.0.0.1.evil.example": 403, "localhost.evil.example": 403, "edge1.evil.example": 403, "": 403,
	} {
		r := httptest.NewRequest("GET", "/v1/models", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("host %q: got %d, want %d", host, w.Code, want)
		}
	}
	// HTTP/1.0 needs none, but what it says counts.
	for host, want := range map[string]int{"": 200, "evil.example": 403} {
		r := httptest.NewRequest("GET", "/v1/models", nil)
		r.Host, r.Proto, r.ProtoMinor = host, "HTTP/1.0", 0
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("HTTP/1.0, host %q: got %d, want %d", host, w.Code, want)
		}
	}
}

// A page of another origin can neither ask nor read.
func TestOtherOrigin_P178(t *testing.T) {
	b := &fakeBox{}
	h := New(b, Options{})
	const body = `{"messages":[{"role":"user","content":"hi"}]}`
	for _, headers := range [][]string{
		{"Origin", "https://evil.example"},
		{"Origin", "null"},
		{"Origin", "http://localhost:1"}, // another port is another origin
		{"Sec-Fetch-Site", "cross-site"},
		{"Sec-Fetch-Site", "same-site", "Origin", "http://localhost"},
	} {
		for _, ask := range []struct{ method, path string }{{"POST", chatPath}, {"POST", plainPath}, {"PUT", "/v1/drop/m.vqf"}, {"OPTIONS", chatPath}} {
			w := do(h, ask.method, ask.path, body, headers...)
			if ask.method != "OPTIONS" && w.Code != 403 || w.Code < 400 {
				t.Errorf("%s %s with %q: got %d", ask.method, ask.path, headers, w.Code)
			}
		}
	}
	if b.last() != nil {
		t.Error("a page of another origin was answered")
	}
	for _, headers := range [][]string{nil, {"Origin", "http://localhost"}, {"Sec-Fetch-Site", "same-origin", "Origin", "http://localhost"}} {
		w := do(h, "POST", chatPath, body, headers...)
		if w.Code != 200 {
			t.Errorf("with %q: got %d", headers, w.Code)
		}
		for name := range w.Header() {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("header %s", name)
			}
		}
	}
}

func TestBodyLimits(t *testing.T) {
	b := &fakeBox{}
	h := New(b, Options{})
	big := `{"prompt":"` + strings.Repeat("x", maxBody) + `"}`
	for _, length := range []int64{int64(len(big)), -1} { // announced, and not
		r := httptest.NewRequest("POST", plainPath, strings.NewReader(big))
		r.ContentLength = length
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if e := errorOf(t, w); w.Code != 413 || e.Code != "payload_too_large" {
			t.Errorf("length %d: got %d %+v", length, w.Code, e)
		}
	}
	if n := h.(*handler).held.Load(); n != 0 {
		t.Errorf("%d bytes are still booked", n)
	}
	// Memory of bodies is bounded over all clients, and free again afterwards.
	h.(*handler).held.Store(heldBodies - 10)
	w := do(h, "POST", plainPath, `{"prompt":"hello"}`)
	if e := errorOf(t, w); w.Code != 429 || e.Code != "queue_full" || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d %+v", w.Code, e)
	}
	if b.last() != nil {
		t.Error("it was asked all the same")
	}
}

// What is booked of a body is what came of it, whatever was announced: questions that
// say nothing of their length, or are yet to come, keep nobody out.
func TestBodiesBooked(t *testing.T) {
	var during []int64
	b := &fakeBox{}
	h := New(b, Options{}).(*handler)
	b.ask = func(_ context.Context, _ *control.Request, reply func(*control.Reply) error) error {
		during = append(during, h.held.Load())
		return say(reply, "x")
	}
	const body = `{"prompt":"hello"}`
	for _, length := range []int64{int64(len(body)), -1, maxBody} { // the last one has not come yet
		r := httptest.NewRequest("POST", plainPath, io.TeeReader(strings.NewReader(body), writerFunc(func(p []byte) { during = append(during, h.held.Load()) })))
		r.ContentLength = length
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	const all = int64(len(body))
	if want := []int64{0, all, 0, all, 0, all}; !slices.Equal(during, want) {
		t.Errorf("booked before and after bodies: %d, want %d", during, want)
	}
	// The bound holds for what comes, too.
	h.held.Store(heldBodies - 10)
	r := httptest.NewRequest("POST", plainPath, strings.NewReader(body))
	r.ContentLength = -1
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if e := errorOf(t, w); w.Code != 429 || e.Code != "queue_full" || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d %+v", w.Code, e)
	}
	if n := h.held.Load(); n != heldBodies-10 {
		t.Errorf("%d bytes are still booked", n-heldBodies+10)
	}
}

type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

// What is compressed, or a part of a file, is refused by name and not read.
func TestNotAsItIs(t *testing.T) {
	b := &fakeBox{drop: func(context.Context, string, int64, io.Reader) (int64, error) {
		t.Error("a file was taken")
		return 0, nil
	}}
	h := New(b, Options{})
	for _, tt := range []struct {
		method, path, header, value, code string
	}{
		{"POST", plainPath, "Content-Encoding", "gzip", "unsupported"},
		{"POST", chatPath, "Content-Encoding", "zstd", "unsupported"},
		{"PUT", "/v1/drop/m.vqf", "Content-Encoding", "gzip", "unsupported"},
		{"PUT", "/v1/drop/m.vqf", "Content-Range", "bytes 5-9/10", "bad_request"},
	} {
		w := do(h, tt.method, tt.path, `{"prompt":"hello"}`, tt.header, tt.value)
		if e := errorOf(t, w); w.Code != 400 || e.Code != tt.code || !strings.Contains(e.Message, tt.header) {
			t.Errorf("%s with %s %s: %d %+v", tt.path, tt.header, tt.value, w.Code, e)
		}
	}
	if b.last() != nil {
		t.Error("a question was asked")
	}
	if w := do(h, "POST", plainPath, `{"prompt":"hello"}`, "Content-Encoding", "identity"); w.Code != 200 {
		t.Errorf("as it is: %d %s", w.Code, w.Body)
	}
}

// A client that sends its body too slowly is let go; the clock of the handlers is a
// minute back, so that the time is over when it begins.
func TestSlowBody(t *testing.T) {
	b := &fakeBox{}
	srv := httptest.NewServer(New(b, Options{Now: func() time.Time { return time.Now().Add(-bodyTime) }}))
	defer srv.Close()
	for _, ask := range []string{"POST " + plainPath, "PUT /v1/drop/m.vqf"} {
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{", ask); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil {
			if resp.StatusCode != http.StatusRequestTimeout {
				t.Errorf("%s: got %s", ask, resp.Status)
			}
			_ = resp.Body.Close()
		} else if ask[0] == 'P' && ask[1] == 'O' {
			t.Errorf("%s: %v", ask, err)
		}
		_ = c.Close()
	}
	if b.last() != nil {
		t.Error("half a body was asked")
	}
}

func TestDrop(t *testing.T) {
	var got strings.Builder
	var name string
	var size int64
	b := &fakeBox{drop: func(_ context.Context, n string, s int64, r io.Reader) (int64, error) {
		name, size = n, s
		return io.Copy(&got, r)
	}}
	h := New(b, Options{})
	w := do(h, "PUT", "/v1/drop/qwen3-0.6b.vqf", "weights")
	if m := decode(t, w.Body.Bytes()); w.Code != 201 || m["name"] != "qwen3-0.6b.vqf" || m["bytes"] != 7.0 || name != "qwen3-0.6b.vqf" || size != 7 || got.String() != "weights" {
		t.Errorf("got %d %s; name %q, size %d, %q", w.Code, w.Body, name, size, got.String())
	}
	name = ""
	for _, bad := range []string{"m.bin", ".m.vqf", ".vqf", "a%2Fb.vqf", "..%2Fm.vqf", "a%20b.vqf", "m@1.vqf", "m.vqf.skip", strings.Repeat("x", 200) + ".vqf", "%00.vqf"} {
		if w := do(h, "PUT", "/v1/drop/"+bad, "x"); w.Code != 400 && w.Code != 404 {
			t.Errorf("%s: got %d", bad, w.Code)
		}
	}
	if name != "" {
		t.Errorf("%q was taken", name)
	}
	// No more than so many at a time.
	hold, under := make(chan struct{}), make(chan struct{}, maxUploads)
	b.drop = func(_ context.Context, _ string, _ int64, r io.Reader) (int64, error) {
		under <- struct{}{}
		<-hold
		return io.Copy(io.Discard, r)
	}
	var wg sync.WaitGroup
	for range maxUploads {
		wg.Go(func() { do(h, "PUT", "/v1/drop/m.vqf", "x") })
		<-under
	}
	if w := do(h, "PUT", "/v1/drop/m.vqf", "x"); w.Code != 429 {
		t.Errorf("one more: got %d", w.Code)
	}
	close(hold)
	wg.Wait()
}
