// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"windhover/control"
	"windhover/engine"
)

// boxCollector reports the state of the machine and of the links when it is asked.
type boxCollector struct {
	counters func() control.Counters
	stats    func() control.Stats
	pinned   func() bool
}

var (
	boxQueue      = prometheus.NewDesc("windhover_queue_length", "Requests that wait.", nil, nil)
	boxActive     = prometheus.NewDesc("windhover_active_requests", "Requests in work.", nil, nil)
	boxConnected  = prometheus.NewDesc("windhover_mqtt_connected", "1 while a link has its broker.", []string{"link"}, nil)
	boxReconnects = prometheus.NewDesc("windhover_mqtt_reconnects_total", "Connections of a link after its first.", []string{"link"}, nil)
	boxDropped    = prometheus.NewDesc("windhover_mqtt_dropped_total", "Messages given up: incoming ones that came while the box was busy with others (behind), retained ones (replay), empty or misdirected ones (ignored); outgoing ones because too many wait (full) or the connection breaks with them (lost).", []string{"link", "reason"}, nil)
	boxOutbox     = prometheus.NewDesc("windhover_mqtt_outbox_depth", "Messages that wait to be published.", []string{"lane"}, nil)
	boxAside      = prometheus.NewDesc("windhover_name_taken", "1 while another box has the device's name and this one serves nobody over MQTT.", nil, nil)
	boxJobs       = prometheus.NewDesc("windhover_jobs", "Records of jobs that are kept, by status.", []string{"status"}, nil)
	boxEnded      = prometheus.NewDesc("windhover_jobs_total", "Jobs that ended, by type and status.", []string{"type", "status"}, nil)
	boxCelsius    = prometheus.NewDesc("windhover_thermal_celsius", "The hottest zone, on a machine that tells.", nil, nil)
	boxThrottled  = prometheus.NewDesc("windhover_throttled", "1 while the CPU is slowed because of heat, and for half a minute after.", nil, nil)
	boxResting    = prometheus.NewDesc("windhover_resting_cores", "Cores that do not compute, so that a hot machine does not shut down.", nil, nil)
	boxPinned     = prometheus.NewDesc("windhover_affinity_ok", "0 while workers are not on the CPUs that they were bound to.", nil, nil)
	boxMemory     = prometheus.NewDesc("windhover_memory_available_bytes", "What new work could have: by the kernel, and by the control group of the daemon.", nil, nil)
	boxDisk       = prometheus.NewDesc("windhover_disk_free_bytes", "Free where models are stored.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c boxCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{boxQueue, boxActive, boxConnected, boxReconnects, boxDropped, boxOutbox, boxAside, boxJobs, boxEnded,
		boxCelsius, boxThrottled, boxResting, boxPinned, boxMemory, boxDisk} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c boxCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := c.counters()
	gauge(boxQueue, float64(count.Waiting))
	gauge(boxActive, float64(count.Active))
	gauge(boxAside, one(count.NameTaken))
	for link, up := range count.Connected {
		gauge(boxConnected, one(up), link)
		ch <- prometheus.MustNewConstMetric(boxReconnects, prometheus.CounterValue, float64(count.Reconnects[link]), link)
	}
	for d, n := range count.Drops {
		ch <- prometheus.MustNewConstMetric(boxDropped, prometheus.CounterValue, float64(n), d.Link, d.Reason)
	}
	for lane, n := range count.OutboxDepth {
		gauge(boxOutbox, float64(n), lane)
	}
	for status, n := range count.Jobs {
		gauge(boxJobs, float64(n), status)
	}
	for e, n := range count.JobsEnded {
		ch <- prometheus.MustNewConstMetric(boxEnded, prometheus.CounterValue, float64(n), e.Type, e.Status)
	}
	s := c.stats()
	if s.TempC != 0 {
		gauge(boxCelsius, s.TempC)
	}
	gauge(boxThrottled, one(s.Throttled))
	gauge(boxResting, float64(s.RestingCores))
	gauge(boxPinned, one(c.pinned()))
	gauge(boxMemory, float64(s.MemAvailable))
	gauge(boxDisk, float64(s.DiskFree))
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// pinnedModel is a model that looks where its workers are: *engine.Model, or what
// holds one.
type pinnedModel interface{ CheckAffinity() error }

// pinned says whether all workers are where they were bound to. Those that are in work
// are not looked at.
func (r *registry) pinned() bool {
	ok := true
	for _, s := range r.current() {
		if m, is := s.servable.(pinnedModel); is {
			if err := m.CheckAffinity(); err != nil && !errors.Is(err, engine.ErrBusy) && !errors.Is(err, engine.ErrClosed) {
				ok = false
			}
		}
		r.release(s)
	}
	return ok
}
