// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"windhover/engine"
)

// modelCollector reports the state of each model when it is asked.
type modelCollector struct {
	reg   *registry
	loads *loadTimes
}

// loadTimes are how long models took to load.
type loadTimes struct {
	mu   sync.Mutex
	took map[string]time.Duration // by model
}

// loaded notes how long a model took to load.
func (c modelCollector) loaded(name string, took time.Duration) {
	c.loads.mu.Lock()
	defer c.loads.mu.Unlock()
	c.loads.took[name] = took
}

// of are those of the models that are there; the others are forgotten.
func (l *loadTimes) of(names map[string]bool) map[string]time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.took, func(name string, _ time.Duration) bool { return !names[name] })
	return maps.Clone(l.took)
}

var (
	modelState = prometheus.NewDesc("windhover_model_state", "1 for the state a model is in.", []string{"name", "state"}, nil)
	modelInfo  = prometheus.NewDesc("windhover_model_info", "Always 1.", []string{"name", "version", "sha256"}, nil)
	modelLoad  = prometheus.NewDesc("windhover_model_load_seconds", "What the version of a model that was loaded last took to be.", []string{"name"}, nil)
	modelRead  = prometheus.NewDesc("windhover_weights_read_bytes_total", "Weights read from the file while computing, of a model that does not stay in memory.", []string{"name", "residency"}, nil)
	modelBusy  = prometheus.NewDesc("windhover_model_sequences", "Requests computed beside each other now.", []string{"name"}, nil)
	modelKept  = prometheus.NewDesc("windhover_model_kept_tokens", "Tokens of prefixes that need no computing.", []string{"name"}, nil)
	modelCache = prometheus.NewDesc("windhover_kv_cache_ratio", "Part of a model's cache of keys and values that requests in work hold; kept prefixes give way and do not count.", []string{"name"}, nil)
	modelPages = prometheus.NewDesc("windhover_kv_cache_bytes", "Memory that a model's cache of keys and values takes, kept prefixes included; at most engine.cache_memory.", []string{"name"}, nil)
)

// activeModel is a model that tells what it is at: *engine.Model, or what holds one.
type activeModel interface{ Activity() engine.Activity }

// weightsReader is a model that counts what it reads: *engine.Model, or what holds one.
type weightsReader interface{ WeightsRead() int64 }

// Describe implements prometheus.Collector.
func (c modelCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{modelState, modelInfo, modelLoad, modelRead, modelBusy, modelKept, modelCache, modelPages} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c modelCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	names := map[string]bool{}
	for _, d := range c.reg.list() {
		names[d.Name] = true
		gauge(modelState, 1, d.Name, d.State)
		gauge(modelInfo, 1, d.Name, d.Version, d.SHA256)
	}
	for name, took := range c.loads.of(names) {
		gauge(modelLoad, took.Seconds(), name)
	}
	for _, s := range c.reg.current() {
		if m, ok := s.servable.(weightsReader); ok {
			ch <- prometheus.MustNewConstMetric(modelRead, prometheus.CounterValue, float64(m.WeightsRead()), s.Name, s.Info().Need.Residency)
		}
		if m, ok := s.servable.(activeModel); ok {
			a := m.Activity()
			gauge(modelBusy, float64(a.Active), s.Name)
			gauge(modelKept, float64(a.Kept), s.Name)
			gauge(modelCache, heldPart(a.PagesHeld, a.Pages), s.Name)
			gauge(modelPages, float64(a.KVBytes), s.Name)
		}
		c.reg.release(s)
	}
}

// heldPart is 0 to 1, 0 also for a model that has closed.
func heldPart(held, pages int) float64 { return float64(held) / float64(max(pages, 1)) }
