// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"
)

// watched hands requests to h, and writes one record of each while debug is on: no
// query, no header and no body is in it. A handler that panics ends its connection, as
// net/http has it, which would also print what the panic says: that may be a prompt.
func watched(h http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var count *countedAnswer
		start := time.Now()
		if log.Enabled(r.Context(), slog.LevelDebug) {
			count = &countedAnswer{ResponseWriter: w, status: http.StatusOK}
			w = count
		}
		defer func() {
			if p := recover(); p != nil {
				if p != http.ErrAbortHandler { // which a handler may say
					log.Error("an HTTP handler panics", "method", r.Method, "path", r.URL.Path, "error", panicText(p), "stack", string(debug.Stack()))
				}
				panic(http.ErrAbortHandler)
			}
			if count != nil {
				log.Debug("http request", "remote", r.RemoteAddr, "method", r.Method, "path", r.URL.Path,
					"status", count.status, "bytes", count.bytes, "ms", time.Since(start).Milliseconds())
			}
		}()
		h.ServeHTTP(w, r)
	})
}

// panicText is what may be told of a panic: what the runtime says of its own, of any
// other the type alone, because its value may quote what a client sent.
func panicText(p any) string {
	if e, is := p.(runtime.Error); is {
		return e.Error()
	}
	return fmt.Sprintf("panic with a %T", p)
}

// countedAnswer counts what an answer is.
type countedAnswer struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// WriteHeader implements http.ResponseWriter.
func (c *countedAnswer) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (c *countedAnswer) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.bytes += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (c *countedAnswer) Unwrap() http.ResponseWriter { return c.ResponseWriter }
