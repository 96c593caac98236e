// SPDX-License-Identifier: Apache-2.0

package web

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"windhover/control"
)

// Bounds on what a client may take of the box.
const (
	maxBody     = 16 << 20 // of a question: a picture of 12 MB as a data URL
	heldBodies  = 48 << 20 // of all questions that are read or in work
	maxUploads  = 2        // at a time
	bodyTime    = time.Minute
	stallTime   = 30 * time.Second // an upload or an answer may stand still so long
	aliveTime   = 15 * time.Second // of silence in an answer that is streamed, until a comment says that it goes on
	defaultMost = 1024             // tokens of an answer that names no bound, context permitting
)

// Options say how the handlers are reached.
type Options struct {
	Client string // "http", "socket": clients are this, a colon, which no client of MQTT may have, and the user that they name
	Now    func() time.Time
	// Refused is given a question that went no further than this package, for who keeps a
	// record; nil: nobody does.
	Refused func(control.Audited)
}

// handler answers requests. held is the memory of bodies.
type handler struct {
	box     Box
	opt     Options
	started time.Time
	held    atomic.Int64
	uploads atomic.Int32
	cross   *http.CrossOriginProtection
	mux     *http.ServeMux
}

// New returns the routes: /v1/models, /v1/chat/completions, /v1/completions,
// /v1/embeddings, /v1/drop/NAME, the page at / and what it needs. A request that
// changes something and comes from a page of another origin is refused; no answer
// may be read by one.
func New(box Box, opt Options) http.Handler {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Refused == nil {
		opt.Refused = func(control.Audited) {}
	}
	h := &handler{box: box, opt: opt, started: opt.Now(), cross: http.NewCrossOriginProtection(), mux: http.NewServeMux()}
	h.cross.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, forbidden("a page of another origin may not ask this box"))
	}))
	h.mux.HandleFunc("GET /v1/models", h.models)
	h.mux.HandleFunc("GET /v1/models/{model}", h.model)
	h.mux.HandleFunc("POST /v1/chat/completions", h.chat)
	h.mux.HandleFunc("POST /v1/completions", h.completion)
	h.mux.HandleFunc("POST /v1/embeddings", h.embeddings)
	h.mux.HandleFunc("PUT /v1/drop/{name}", h.drop)
	h.mux.HandleFunc("GET /panel", h.panel)
	h.mux.HandleFunc("GET /{$}", h.page)
	h.mux.Handle("GET /assets/", assets())
	h.mux.HandleFunc(anyRoute, h.otherwise)
	return h
}

// anyRoute takes what no other route does, a known path with another method too: what
// http.ServeMux would answer itself is no error that OpenAI's clients read.
const anyRoute = "/v1/"

// otherwise says that nothing is served here, or by which methods something is.
func (h *handler) otherwise(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut} {
		probe := *r
		probe.Method = method
		if _, pattern := h.mux.Handler(&probe); pattern != anyRoute {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		writeError(w, unknownRoute(r))
		return
	}
	list := strings.Join(allowed, ", ")
	w.Header().Set("Allow", list)
	writeError(w, wrongMethod(r, list))
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
	w.Header().Set("Cache-Control", "no-store")
	h.cross.Handler(h.mux).ServeHTTP(w, r)
}
