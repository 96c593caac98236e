// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windhover/control"
)

func TestToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, "secret") })
	h := withToken(file, served)
	get := func(authorization string) int {
		r := httptest.NewRequest("GET", "/metrics", nil)
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK && (strings.Contains(w.Body.String(), "secret") || w.Header().Get("WWW-Authenticate") != "Bearer") {
			t.Errorf("%q: refused with %q, %v", authorization, w.Body, w.Header())
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
			write(t, file, tt.file)
		}
		if got := get(tt.authorization); got != tt.want {
			t.Errorf("token %q, %q: got %d, want %d", tt.file, tt.authorization, got, tt.want)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got := get("Bearer new"); got != 401 {
		t.Errorf("without the file: got %d", got)
	}
	h = withToken("", served)
	if got := get(""); got != 200 {
		t.Errorf("without a token_file: got %d", got)
	}
}

// The port shows health and metrics; what is private stays on the socket. Nothing
// but GET is answered.
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
	public, local := a.public(), a.local()
	check(public, "GET", "/healthz", 200, "ok")
	check(public, "GET", "/readyz", 503, "no model")
	check(public, "GET", "/metrics", 200, "windhover_build_info")
	check(public, "GET", "/v1/status", 404, "")
	check(public, "GET", "/v1/jobs", 404, "")
	check(public, "GET", "/debug/pprof/", 404, "")
	check(public, "POST", "/healthz", 405, "")
	check(local, "GET", "/v1/status", 200, `"device":"box"`)
	check(local, "GET", "/v1/models", 200, "[]")
	check(local, "DELETE", "/v1/models", 405, "")
	r.put(t, "m.vqf", tinyModel(t, nil))
	r.scan(context.Background())
	check(public, "GET", "/readyz", 200, "ready")
	check(public, "GET", "/metrics", 200, `windhover_model_state{name="m",state="ready"} 1`)
	check(public, "GET", "/metrics", 200, `windhover_weights_read_bytes_total{name="m",residency="full"} 0`)
	check(local, "GET", "/v1/models", 200, `"name":"m"`)
}
