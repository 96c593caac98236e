// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"windhover/control"
)

var metricName = regexp.MustCompile(`\bwindhover_[a-z0-9_]+`)

// Alerts and dashboard name metrics and labels that docs/HTTP.md has, and a journal id
// that is right.
func TestMonitoringExamples(t *testing.T) {
	kinds, labels := documentedMetrics(t)
	const alerts, grafana = "../packaging/examples/prometheus/alerts.yml", "../packaging/examples/grafana/windhover.json"
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(readText(t, grafana)), &dashboard); err != nil {
		t.Fatal(err)
	}
	var queries []string
	for _, p := range dashboard.Panels {
		if p.Title == "" || len(p.Targets) == 0 {
			t.Errorf("panel %+v", p)
		}
		for _, q := range p.Targets {
			queries = append(queries, strings.ReplaceAll(q.Expr, "$instance", ".*"))
		}
	}
	selector := regexp.MustCompile(`\b(windhover_[a-z0-9_]+)(?:\{([^}]*)\})?`)
	for path, text := range map[string]string{alerts: readText(t, alerts), grafana: strings.Join(queries, "\n")} {
		uses := selector.FindAllStringSubmatch(text, -1)
		if len(uses) < 10 {
			t.Errorf("%s names %d metrics", path, len(uses))
		}
		for _, use := range uses {
			name := strings.TrimSuffix(use[1], "_bucket")
			if kinds[name] == "" || (use[1] != name) != (kinds[name] == "histogram") {
				t.Errorf("%s: there is no metric %s", path, use[1])
			}
			for _, l := range regexp.MustCompile(`([a-z_]+)[=!]`).FindAllStringSubmatch(use[2], -1) {
				if l[1] != "instance" && !slices.Contains(labels[name], l[1]) {
					t.Errorf("%s: %s has no label %s", path, use[1], l[1])
				}
			}
		}
		all := slices.Concat(slices.Collect(maps.Values(labels))...)
		for _, by := range regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`).FindAllStringSubmatch(text, -1) {
			for _, l := range strings.Split(by[1], ", ") {
				if l != "instance" && l != "le" && !slices.Contains(all, l) {
					t.Errorf("%s: no metric has a label %s", path, l)
				}
			}
		}
	}
	if !strings.Contains(readText(t, alerts), "MESSAGE_ID="+messageIDs["rolled_back"]) {
		t.Error("alerts.yml has another id of rolled_back")
	}
	// Prometheus can read the questions of the dashboard, as rules.
	var rules strings.Builder
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	for i, q := range queries {
		fmt.Fprintf(&rules, "  - {record: 'dashboard:%d', expr: '%s'}\n", i, q)
	}
	file := filepath.Join(t.TempDir(), "dashboard.yml")
	write(t, file, rules.String())
	promtool(t, nil, "check", "rules", file)
}

// What the box collector says is what the parts say.
func TestBoxMetrics(t *testing.T) {
	m := newMetrics(newRegistry(func() {}))
	stats := control.Stats{TempC: 71.5, Throttled: true, RestingCores: 2, MemAvailable: 1 << 30, DiskFree: 2 << 30}
	pinned := true
	m.reg.MustRegister(boxCollector{
		func() control.Counters {
			return control.Counters{Waiting: 3, Active: 2, Drops: map[control.Drop]uint64{{Link: "data", Reason: "full"}: 7}, JobsEnded: map[control.JobEnd]uint64{{Type: "convert", Status: "failed"}: 6}, Connected: map[string]bool{"control": true, "data": false},
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
		"windhover_queue_length": 3, "windhover_active_requests": 2, "windhover_mqtt_dropped_total data full": 7, "windhover_jobs_total failed convert": 6,
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

// promtool runs it, or skips the test where there is none.
func promtool(t *testing.T, in io.Reader, args ...string) {
	t.Helper()
	cmd := exec.Command(need(t, "promtool"), args...)
	cmd.Stdin = in
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// Prometheus reads the alerts, and each of them fires when it should and is silent when
// it need not, by the cases of testdata/alerts_test.yml.
func TestAlerts(t *testing.T) {
	const rules, cases = "../packaging/examples/prometheus/alerts.yml", "testdata/alerts_test.yml"
	said := readText(t, cases)
	for _, m := range regexp.MustCompile(`(?m)- alert: (\w+)$`).FindAllStringSubmatch(readText(t, rules), -1) {
		for _, end := range []string{"fires", "is silent"} {
			if !strings.Contains(said, "- name: "+m[1]+" "+end+"\n") {
				t.Errorf("%s: nothing shows when %s %s", cases, m[1], end)
			}
		}
	}
	for _, n := range metricName.FindAllString(said, -1) {
		if !strings.Contains(readText(t, rules), n) {
			t.Errorf("%s: no alert looks at %s", cases, n)
		}
	}
	promtool(t, nil, "check", "rules", rules)
	promtool(t, nil, "test", "rules", cases)
}

// Prometheus finds nothing to say of what a daemon with a model shows.
func TestExposition(t *testing.T) {
	b := startBox(t, nil)
	b.drop(t, "m.vqf", tinyModel(t, nil))
	b.ready(t, "m")
	promtool(t, strings.NewReader(b.metrics(t).text), "check", "metrics")
}
