// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"encoding/json"
	"errors"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"windhover/appliance/web"
	"windhover/control"
)

// StatusDoc is what GET /v1/status on the local socket answers.
type StatusDoc struct {
	Device  string          `json:"device"`
	Version string          `json:"version"`
	Uptime  int64           `json:"uptime_s"`
	MQTT    string          `json:"mqtt"` // where requests come in, and whether it is connected
	State   string          `json:"state"`
	Kernels string          `json:"kernels"`
	Drop    string          `json:"drop"` // where to drop models
	Models  []control.Model `json:"models"`
	Stats   control.Stats   `json:"stats"`
}

// api serves health, metrics and the handlers of package web, on the local socket the
// state of the appliance too.
type api struct {
	b      *backend
	status func() StatusDoc
	jobs   func() []control.JobRecord
}

// public is what the HTTP port shows. rest answers what is not of health or metrics.
func (a *api) public(rest http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/", rest)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := a.b.reg.resolve(""); err != nil {
			respond(w, http.StatusServiceUnavailable, oneLine(err)+"\n")
			return
		}
		respond(w, http.StatusOK, "ready\n")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.b.metrics.reg, promhttp.HandlerOpts{}))
	return mux
}

// local is what the socket shows: who can open it is trusted with more.
func (a *api) local(rest http.Handler) *http.ServeMux {
	mux := a.public(rest)
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) { respondJSON(w, a.status()) })
	mux.HandleFunc("POST /v1/jobs", submitJobs(a.b.submit))
	mux.HandleFunc("GET /v1/jobs", func(w http.ResponseWriter, _ *http.Request) { respondJSON(w, a.jobs()) })
	return mux
}

// A client that is gone cannot be told that its answer failed: the errors of
// writing a response are of no use.
func respond(w http.ResponseWriter, code int, text string) {
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text))
}

func respondJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// serveHTTP runs a server on l until ctx ends and what was asked before is answered, for
// a second at most. The times hold for who is quick by nature; handlers that read or write
// much give more (package web).
func serveHTTP(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) {
	srv := &http.Server{Handler: web.Linger(watched(h, log)), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: stdlog.New(lineWriter{log, "the HTTP server says"}, "", 0)}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		c, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if srv.Shutdown(c) != nil {
			_ = srv.Close() // whoever still reads has had his second
		}
	})
	if err := srv.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
		log.Error("HTTP ends", "address", l.Addr().String(), "error", err)
	}
	if !stop() { // Serve is back as soon as nobody else may come in
		<-ended
	}
}
