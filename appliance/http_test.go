// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"windhover/control"
)

// The port shows health and metrics; what is private stays on the socket; everything
// else is for package web.
func TestAPI(t *testing.T) {
	r := newRig(t, t.TempDir())
	b := &backend{reg: r.reg, metrics: newMetrics(r.reg), log: slog.New(slog.DiscardHandler)}
	a := &api{b: b, status: func() StatusDoc { return StatusDoc{Device: "box"} }, jobs: func() []control.JobRecord { return nil }}
	get := func(mux *http.ServeMux, method, path string) (int, string) {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w.Code, w.Body.String()
	}
	check := func(mux *http.ServeMux, method, path string, want int, says string) {
		t.Helper()
		if code, body := get(mux, method, path); code != want || !strings.Contains(body, says) {
			t.Errorf("%s %s: got %d %.200q, want %d with %q", method, path, code, body, want, says)
		}
	}
	rest := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusTeapot, "the rest") })
	public, local := a.public(rest), a.local(rest)
	check(public, "GET", "/healthz", 200, "ok")
	check(public, "GET", "/readyz", 503, "no model")
	check(public, "GET", "/metrics", 200, "windhover_build_info")
	check(public, "GET", "/v1/status", 418, "the rest")
	check(public, "GET", "/v1/jobs", 418, "the rest")
	check(public, "GET", "/debug/pprof/", 418, "the rest")
	check(local, "GET", "/v1/status", 200, `"device":"box"`)
	check(local, "GET", "/v1/models", 418, "the rest")
	r.put(t, "m.vqf", tinyModel(t, nil))
	r.scan(context.Background())
	check(public, "GET", "/readyz", 200, "ready")
	check(public, "GET", "/metrics", 200, `windhover_model_state{name="m",state="ready"} 1`)
	check(public, "GET", "/metrics", 200, `windhover_weights_read_bytes_total{name="m",residency="full"} 0`)
}

// Who was let in before the end is answered before it: the process may go when serveHTTP
// is back.
func TestServerEndsAfterItsAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked, release, back := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var answered atomic.Bool
	go func() {
		serveHTTP(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(asked)
			<-release
			respond(w, http.StatusOK, "ok\n")
			answered.Store(true)
		}), slog.New(slog.DiscardHandler))
		if !answered.Load() {
			t.Error("the server is back before it has answered")
		}
		close(back)
	}()
	code := make(chan int, 1)
	go func() {
		resp, err := http.Get("http://" + l.Addr().String())
		if err != nil {
			t.Error(err)
			code <- 0
			return
		}
		_ = resp.Body.Close() // only the code is of interest
		code <- resp.StatusCode
	}()
	<-asked
	cancel()
	until(t, "nobody else comes in", func() bool {
		c, err := net.Dial("tcp", l.Addr().String())
		return err != nil || c.Close() != nil
	})
	close(release)
	if c := <-code; c != http.StatusOK {
		t.Errorf("the answer has code %d", c)
	}
	<-back
}
