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

// metrics are what /metrics shows. Base units; no label holds a client or an id.
type metrics struct {
	reg      *prometheus.Registry
	requests *prometheus.CounterVec
	tokens   *prometheus.CounterVec
	first    prometheus.Histogram
	total    prometheus.Histogram
	last     atomic.Pointer[control.TokenSpeed] // of the last generation
	started  time.Time
	hour     hour
	backs    prometheus.Counter
	token    prometheus.Histogram
	load     *prometheus.GaugeVec
}

func newMetrics(models *registry) *metrics {
	m := &metrics{
		started:  time.Now(),
		reg:      prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "windhover_requests_total", Help: "Generations by how they ended."}, []string{"code"}),
		tokens:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "windhover_tokens_total", Help: "Tokens by kind."}, []string{"kind"}),
		first: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "windhover_time_to_first_token_seconds",
			Help: "From the start of a generation to its first token.", Buckets: prometheus.ExponentialBuckets(0.01, 2, 14)}),
		total: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "windhover_request_duration_seconds",
			Help: "Length of a generation.", Buckets: prometheus.ExponentialBuckets(0.05, 2, 14)}),
		backs: prometheus.NewCounter(prometheus.CounterOpts{Name: "windhover_rollbacks_total", Help: "Versions that were taken back."}),
		token: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "windhover_time_per_output_token_seconds",
			Help: "Of a generation, behind its first token.", Buckets: prometheus.ExponentialBuckets(0.002, 2, 14)}),
		load: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "windhover_model_load_seconds", Help: "What the version that was loaded last took to be."}, []string{"name"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "windhover_build_info", Help: "Always 1.", ConstLabels: prometheus.Labels{"version": Version}})
	build.Set(1)
	m.reg.MustRegister(m.requests, m.tokens, m.first, m.total, m.token, m.backs, m.load, build, modelCollector{models},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) generated(r *engine.Result) {
	m.last.Store(&control.TokenSpeed{Prefill: round1(r.Timing.PrefillTPS), Decode: round1(r.Timing.DecodeTPS)})
	m.hour.add(time.Since(m.started), r)
	m.requests.WithLabelValues(r.Finish).Inc()
	m.tokens.WithLabelValues("prompt").Add(float64(r.Usage.Prompt - r.Usage.Cached))
	m.tokens.WithLabelValues("cached").Add(float64(r.Usage.Cached))
	m.tokens.WithLabelValues("completion").Add(float64(r.Usage.Completion))
	m.first.Observe(r.Timing.TTFT.Seconds())
	m.total.Observe(r.Timing.Total.Seconds())
	if r.Timing.DecodeTPS > 0 {
		m.token.Observe(1 / r.Timing.DecodeTPS)
	}
}

// loaded notes how long a model took to load.
func (m *metrics) loaded(name string, took time.Duration) {
	m.load.WithLabelValues(name).Set(took.Seconds())
}

// watchStore shows what the files in a store take, each of the times it is asked.
func (m *metrics) watchStore(s store) {
	m.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "windhover_store_bytes", Help: "Files of models in the store."},
		func() float64 { return float64(s.bytes()) }))
}

func (m *metrics) failed(err error) {
	m.requests.WithLabelValues(coded(err, control.Internal).Code.Name).Inc()
}

// modelCollector reports the state of each model when it is asked.
type modelCollector struct{ reg *registry }

var (
	modelState = prometheus.NewDesc("windhover_model_state", "1 for the state a model is in.", []string{"name", "state"}, nil)
	modelRead  = prometheus.NewDesc("windhover_weights_read_bytes_total", "Weights read from the file while computing, of a model that does not stay in memory.", []string{"name", "residency"}, nil)
	modelBusy  = prometheus.NewDesc("windhover_model_sequences", "Requests computed beside each other now.", []string{"name"}, nil)
	modelKept  = prometheus.NewDesc("windhover_model_kept_tokens", "Tokens of prefixes that need no computing.", []string{"name"}, nil)
	modelInfo  = prometheus.NewDesc("windhover_model_info", "Always 1.", []string{"name", "version", "sha256"}, nil)
)

// activeModel is a model that tells what it is at: *engine.Model, or what holds one.
type activeModel interface{ Activity() engine.Activity }

// weightsReader is a model that counts what it reads: *engine.Model, or what holds one.
type weightsReader interface{ WeightsRead() int64 }

// Describe implements prometheus.Collector.
func (c modelCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- modelState
	ch <- modelInfo
	ch <- modelRead
	ch <- modelBusy
	ch <- modelKept
}

// Collect implements prometheus.Collector.
func (c modelCollector) Collect(ch chan<- prometheus.Metric) {
	for _, d := range c.reg.list() {
		ch <- prometheus.MustNewConstMetric(modelState, prometheus.GaugeValue, 1, d.Name, d.State)
		ch <- prometheus.MustNewConstMetric(modelInfo, prometheus.GaugeValue, 1, d.Name, d.Version, d.SHA256)
	}
	for _, s := range c.reg.current() {
		if m, ok := s.servable.(weightsReader); ok {
			ch <- prometheus.MustNewConstMetric(modelRead, prometheus.CounterValue, float64(m.WeightsRead()), s.Name, s.Info().Need.Residency)
		}
		if m, ok := s.servable.(activeModel); ok {
			a := m.Activity()
			ch <- prometheus.MustNewConstMetric(modelBusy, prometheus.GaugeValue, float64(a.Active), s.Name)
			ch <- prometheus.MustNewConstMetric(modelKept, prometheus.GaugeValue, float64(a.Kept), s.Name)
		}
		c.reg.release(s)
	}
}
