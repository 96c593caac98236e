// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"windhover/control"
)

var metricName = regexp.MustCompile(`\bwindhover_[a-z0-9_]+`)

// Alerts and dashboard name metrics that there are, and a journal id that is right.
func TestMonitoringExamples(t *testing.T) {
	there := map[string]bool{}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range sources {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, m := range regexp.MustCompile(`"(windhover_[a-z0-9_]+)"`).FindAllStringSubmatch(readText(t, path), -1) {
			there[m[1]] = true
		}
	}
	const dir = "../packaging/examples/"
	for _, path := range []string{dir + "prometheus/alerts.yml", dir + "grafana/windhover.json"} {
		names := metricName.FindAllString(readText(t, path), -1)
		if len(names) < 10 {
			t.Errorf("%s names %d metrics", path, len(names))
		}
		for _, n := range names {
			base := strings.TrimSuffix(n, "_bucket")
			if !there[n] && !there[base] {
				t.Errorf("%s: there is no metric %s", path, n)
			}
		}
	}
	if !strings.Contains(readText(t, dir+"prometheus/alerts.yml"), "MESSAGE_ID="+messageIDs["rolled_back"]) {
		t.Error("alerts.yml has another id of rolled_back")
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	data, err := os.ReadFile(dir + "grafana/windhover.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		if p.Title == "" || len(p.Targets) == 0 || strings.Count(p.Targets[0].Expr, "(") != strings.Count(p.Targets[0].Expr, ")") {
			t.Errorf("panel %+v", p)
		}
	}
}

// What the box collector says is what the parts say.
func TestBoxMetrics(t *testing.T) {
	m := newMetrics(newRegistry(func() {}))
	stats := control.Stats{TempC: 71.5, Throttled: true, RestingCores: 2, MemAvailable: 1 << 30, DiskFree: 2 << 30}
	pinned := true
	m.reg.MustRegister(boxCollector{
		func() control.Counters {
			return control.Counters{Waiting: 3, Active: 2, Dropped: 7, Connected: map[string]bool{"control": true, "data": false},
				Reconnects: map[string]uint64{"data": 4}, OutboxDepth: map[string]int{"delta": 5}, Jobs: map[string]uint64{"failed": 1}}
		},
		func() control.Stats { return stats }, func() bool { return pinned },
	})
	gather := func() map[string]float64 {
		families, err := m.reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			for _, x := range f.GetMetric() {
				name := f.GetName()
				for _, l := range x.GetLabel() {
					name += " " + l.GetValue()
				}
				got[name] = x.GetGauge().GetValue() + x.GetCounter().GetValue()
			}
		}
		return got
	}
	want := map[string]float64{
		"windhover_queue_length": 3, "windhover_active_requests": 2, "windhover_mqtt_dropped_total": 7,
		"windhover_mqtt_connected control": 1, "windhover_mqtt_connected data": 0, "windhover_mqtt_reconnects_total data": 4,
		"windhover_mqtt_outbox_depth delta": 5, "windhover_jobs failed": 1, "windhover_name_taken": 0,
		"windhover_thermal_celsius": 71.5, "windhover_throttled": 1, "windhover_resting_cores": 2, "windhover_affinity_ok": 1,
		"windhover_memory_available_bytes": 1 << 30, "windhover_disk_free_bytes": 2 << 30,
	}
	got := gather()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if v, ok := got[name]; !ok || v != want[name] {
			t.Errorf("%s: got %v, %v, want %v", name, v, ok, want[name])
		}
	}
	stats.TempC, pinned = 0, false
	got = gather()
	if _, ok := got["windhover_thermal_celsius"]; ok || got["windhover_affinity_ok"] != 0 {
		t.Errorf("a machine that tells no temperature, with workers astray: %v", got)
	}
}

// The port shows them.
func TestBoxMetricsServed(t *testing.T) {
	b := startBox(t, nil)
	res, err := http.Get("http://" + b.cfg.HTTP.Listen + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"windhover_queue_length 0", "windhover_affinity_ok 1", "windhover_resting_cores 0", "windhover_disk_free_bytes "} {
		if !strings.Contains(string(body), "\n"+want) {
			t.Errorf("no %q", want)
		}
	}
}
