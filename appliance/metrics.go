// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"windhover/control"
	"windhover/engine"
)

// metrics are what /metrics shows. Base units; no label holds a client or an id, and
// none a text that a client can make up.
type metrics struct {
	reg      *prometheus.Registry
	requests *prometheus.CounterVec
	tokens   *prometheus.CounterVec
	first    prometheus.Histogram
	total    prometheus.Histogram
	token    prometheus.Histogram
	backs    prometheus.Counter
	updates  *prometheus.CounterVec
	models   modelCollector
	last     atomic.Pointer[control.TokenSpeed] // of the last generation
	started  time.Time
	hour     hour
}

// Buckets are those of boards: a prompt of a few words on a fast one, a long one on a
// slow one behind others.
var (
	firstBuckets = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120}
	totalBuckets = []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800}
	tokenBuckets = []float64{.002, .005, .01, .02, .03, .05, .075, .1, .15, .2, .3, .5, 1, 2, 5, 10}
)

func newMetrics(models *registry) *metrics {
	m := &metrics{
		started: time.Now(),
		reg:     prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "windhover_requests_total",
			Help: "Requests that ended, refused ones too, by operation and code: ok, or that of the error."}, []string{"op", "code"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "windhover_tokens_total",
			Help: "Tokens of answers (completion) and of their prompts: those that were computed (prompt) and those that needed no computing (cached)."}, []string{"kind"}),
		first: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "windhover_time_to_first_token_seconds",
			Help: "From the acceptance of a request to the first token of its answer.", Buckets: firstBuckets}),
		total: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "windhover_request_duration_seconds",
			Help: "From the acceptance of a request to the end of its answer.", Buckets: totalBuckets}),
		token: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "windhover_time_per_output_token_seconds",
			Help: "Of an answer, behind its first token.", Buckets: tokenBuckets}),
		backs: prometheus.NewCounter(prometheus.CounterOpts{Name: "windhover_rollbacks_total", Help: "Versions that were taken back."}),
		updates: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "windhover_ota_bytes_total",
			Help: "Bytes of updates, downloaded (network) or taken from installed files (reused)."}, []string{"source"}),
		models: modelCollector{models, &loadTimes{took: map[string]time.Duration{}}},
	}
	// What is there from the beginning can be seen to grow by its first one.
	for _, op := range control.Ops {
		m.requests.WithLabelValues(op, "ok")
	}
	for _, kind := range []string{"prompt", "cached", "completion"} {
		m.tokens.WithLabelValues(kind)
	}
	for _, source := range []string{"network", "reused"} {
		m.updates.WithLabelValues(source)
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "windhover_build_info", Help: "Always 1.", ConstLabels: prometheus.Labels{"version": Version}})
	build.Set(1)
	m.reg.MustRegister(m.requests, m.tokens, m.first, m.total, m.token, m.backs, m.updates, build, m.models,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// observed counts the end of a request, whatever it was and wherever it came from.
func (m *metrics) observed(o control.Observation) {
	m.requests.WithLabelValues(o.Op, o.Code).Inc()
	if o.Finish == "" {
		return // there is no answer
	}
	if o.TTFT > 0 {
		m.first.Observe(o.TTFT.Seconds())
	}
	m.total.Observe(o.Total.Seconds())
}

// generated counts what the engine did for a request.
func (m *metrics) generated(r *engine.Result) {
	m.last.Store(&control.TokenSpeed{Prefill: round1(r.Timing.PrefillTPS), Decode: round1(r.Timing.DecodeTPS)})
	m.used(r)
	if r.Timing.DecodeTPS > 0 {
		m.token.Observe(1 / r.Timing.DecodeTPS)
	}
}

// embedded counts what the engine did for texts. How fast answers are generated it does
// not tell.
func (m *metrics) embedded(e *engine.Embedded) {
	m.used(&engine.Result{Usage: e.Usage, Timing: e.Timing})
}

func (m *metrics) used(r *engine.Result) {
	m.hour.add(time.Since(m.started), r)
	m.tokens.WithLabelValues("prompt").Add(float64(r.Usage.Prompt - r.Usage.Cached))
	m.tokens.WithLabelValues("cached").Add(float64(r.Usage.Cached))
	m.tokens.WithLabelValues("completion").Add(float64(r.Usage.Completion))
}

// watchStore shows what the files in a store take, each of the times it is asked.
func (m *metrics) watchStore(s store) {
	m.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "windhover_store_bytes", Help: "Files of models in the store."},
		func() float64 { return float64(s.bytes()) }))
}
