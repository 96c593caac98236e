// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"windhover/control"
	"windhover/control/broker"
	"windhover/engine"
)

// What a served model shows at /metrics beside what a box does.
func TestModelMetrics(t *testing.T) {
	b := startBox(t, nil)
	data := tinyModel(t, nil)
	b.drop(t, "m.vqf", data)
	b.ready(t, "m")
	b.connected(t)
	if _, err := b.client(t, "you").Send(t.Context(), request("hello", 16), nil); err != nil {
		t.Fatal(err)
	}
	until(t, "the answer is counted", func() bool { return b.metrics(t).sum("windhover_request_duration_seconds_count") == 1 })
	e := b.metrics(t)
	if s := e.sum("windhover_time_per_output_token_seconds_sum"); s <= 0 || s > 10 {
		t.Errorf("%v seconds a token", s)
	}
	if s := e.sum("windhover_model_load_seconds", `name="m"`); s <= 0 || s > 60 {
		t.Errorf("%v seconds to load", s)
	}
	if n := e.sum("windhover_store_bytes"); n != float64(len(data)) {
		t.Errorf("the store has %v bytes, want %d", n, len(data))
	}
	first, total := e.sum("windhover_time_to_first_token_seconds_sum"), e.sum("windhover_request_duration_seconds_sum")
	if first <= 0 || total < first || total > waitFor.Seconds() || e.sum("windhover_time_to_first_token_seconds_count") != 1 {
		t.Errorf("%v s to the first token, %v in all", first, total)
	}
	if r := e.sum("windhover_kv_cache_ratio", `name="m"`); r != 0 {
		t.Errorf("with nothing in work %v of the cache is held", r)
	}
	if err := os.Remove(filepath.Join(b.cfg.Paths.drop(), "m.vqf")); err != nil {
		t.Fatal(err)
	}
	until(t, "nothing is said of a model that is gone", func() bool {
		e := b.metrics(t)
		return e.sum("windhover_model_load_seconds") == -1 && e.sum("windhover_model_info") == -1 && e.sum("windhover_kv_cache_ratio") == -1
	})
}

// working is a model of whose cache requests hold a part.
type working struct {
	slow
	now engine.Activity
}

func (w *working) Activity() engine.Activity { return w.now }

// The cache of each model is told by the part that requests hold.
func TestCacheRatio(t *testing.T) {
	for _, c := range []struct {
		held, pages int
		want        float64
	}{{0, 8, 0}, {2, 8, 0.25}, {8, 8, 1}, {0, 0, 0}} {
		reg := newRegistry(func() {})
		reg.activate("m", &serving{servable: &working{now: engine.Activity{Pages: c.pages, PagesHeld: c.held}}, Name: "m"}, control.Model{Name: "m"})
		families, err := newMetrics(reg).reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := -1.0
		for _, f := range families {
			if f.GetName() == "windhover_kv_cache_ratio" {
				got = f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		if got != c.want {
			t.Errorf("%d of %d pages: %v, want %v", c.held, c.pages, got, c.want)
		}
	}
}

// documentedMetrics are those of docs/HTTP.md: their types and labels.
func documentedMetrics(t *testing.T) (kinds map[string]string, labels map[string][]string) {
	t.Helper()
	kinds, labels = map[string]string{}, map[string][]string{}
	quoted := regexp.MustCompile("`([a-z0-9_]+)`")
	for _, row := range regexp.MustCompile(`(?m)^\| (.*windhover_.*?) \| (counter|gauge|histogram) \| (.*?) ?\|`).FindAllStringSubmatch(readText(t, "../docs/HTTP.md"), -1) {
		for _, name := range quoted.FindAllStringSubmatch(row[1], -1) {
			kinds[name[1]] = row[2]
			for _, l := range quoted.FindAllStringSubmatch(row[3], -1) {
				labels[name[1]] = append(labels[name[1]], l[1])
			}
		}
	}
	if len(kinds) < 30 {
		t.Fatalf("docs/HTTP.md names %d metrics", len(kinds))
	}
	return kinds, labels
}

// (P240) What was done is what is counted, in a box whose broker goes and comes back.
// Whoever makes up operations, job types, models, clients and ids makes no label, no
// counter goes down, and all that is there stands in docs/HTTP.md, with its type and
// labels.
func TestMetricsCountWhatIsDone_P240(t *testing.T) {
	inner := freePort(t)
	house, err := broker.Start(broker.Options{Listen: inner, Dir: t.TempDir(), Device: "box"})
	if err != nil {
		t.Fatal(err)
	}
	defer house.Close()
	line := newTelephone(t, inner)
	b := startBox(t, func(c *Config) {
		c.MQTT.URL, c.MQTT.Embedded.Listen = "mqtt://"+line.addr, inner
		c.Audit.File = filepath.Join(t.TempDir(), "audit.jsonl") // it has metrics of its own
	})
	b.drop(t, "m.vqf", tinyModel(t, nil))
	b.ready(t, "m")
	b.connected(t)
	first := b.metrics(t)
	for _, s := range []string{`windhover_requests_total{code="ok",op="chat"}`, `windhover_tokens_total{kind="cached"}`, `windhover_ota_bytes_total{source="network"}`,
		`windhover_jobs_total{status="failed",type="convert"}`, `windhover_mqtt_dropped_total{link="data",reason="behind"}`, "windhover_rollbacks_total"} {
		if v, there := first.samples[s]; !there || v != 0 {
			t.Errorf("before anything: %s is %v, %v", s, v, there)
		}
	}

	c := b.client(t, "good-client")
	usage := control.Usage{}
	for i := range 3 {
		a, err := c.Send(t.Context(), request("hello there", 8), nil)
		if err != nil {
			t.Fatal(err)
		}
		usage.Prompt += a.Done.Usage.Prompt - a.Done.Usage.Cached
		usage.Cached += a.Done.Usage.Cached
		usage.Completion += a.Done.Usage.Completion
		if i == 2 && usage.Cached == 0 {
			t.Error("nothing of a prompt was known")
		}
	}
	evil := request("hello", 8)
	evil.Model = "made-up-model"
	if _, err := c.Send(t.Context(), evil, nil); !errors.Is(err, control.UnknownModel) {
		t.Errorf("%v", err)
	}
	if code, body := b.ask(t, false, "POST", "/v1/chat/completions", strings.NewReader(`{"model":"m","max_tokens":4,"user":"web-user","messages":[{"role":"user","content":"hello"}]}`)); code != 200 {
		t.Errorf("%d %s", code, body)
	}
	if _, err := b.job(t, "convert", "job-one", map[string]string{"source": "none.gguf", "out": "x"}); err == nil {
		t.Error("a file that is not there was converted")
	}
	topics := control.Topics{Device: "box"}
	m, err := control.DialMonitor(t.Context(), control.Endpoint{URL: "mqtt://" + inner}, []string{topics.Status()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	const made = 40
	for i := range made {
		m.Publish(topics.Request(fmt.Sprintf("evil%d", i), fmt.Sprintf("evil-op%d", i)), []byte(fmt.Sprintf(`{"id":"evil-id%d"}`, i)))
		m.Publish(topics.Command(fmt.Sprintf("evil-type%d", i), "evil", fmt.Sprintf("evil-job%d", i)), []byte("{}"))
	}
	until(t, "all of that is counted", func() bool {
		e := b.metrics(t)
		return e.sum("windhover_requests_total", `op="other"`) == made && e.sum("windhover_jobs_total", `type="other"`) == made && e.sum("windhover_requests_total", `op="chat"`) == 1
	})
	line.hangUp()
	until(t, "both links are back", func() bool {
		e := b.metrics(t)
		return e.sum("windhover_mqtt_connected") == 2 && e.sum("windhover_mqtt_reconnects_total", `link="data"`) >= 1 && e.sum("windhover_mqtt_reconnects_total", `link="control"`) >= 1
	})
	until(t, "requests that the broker repeats are passed over", func() bool {
		return b.metrics(t).sum("windhover_mqtt_dropped_total", `link="data"`, `reason="replay"`) >= made
	})

	e := b.metrics(t)
	for what, want := range map[string]float64{
		`windhover_requests_total{code="ok",op="generate"}`:             3,
		`windhover_requests_total{code="unknown_model",op="generate"}`:  1,
		`windhover_requests_total{code="ok",op="chat"}`:                 1,
		`windhover_requests_total{code="unsupported",op="other"}`:       made,
		`windhover_jobs_total{status="rejected",type="other"}`:          made,
		`windhover_jobs_total{status="failed",type="convert"}`:          1,
		`windhover_jobs_total{status="succeeded",type="convert"}`:       0,
		"windhover_request_duration_seconds_count":                      4,
		"windhover_time_to_first_token_seconds_count":                   4,
		"windhover_queue_length":                                        0,
		"windhover_active_requests":                                     0,
		"windhover_name_taken":                                          0,
		`windhover_model_state{name="m",state="ready"}`:                 1,
		fmt.Sprintf(`windhover_build_info{version=%q}`, Version):        1,
		`windhover_mqtt_connected{link="control"}`:                      1,
		fmt.Sprintf(`windhover_mqtt_outbox_depth{lane=%q}`, "terminal"): 0,
	} {
		if got, there := e.samples[what]; !there || got != want {
			t.Errorf("%s is %v (%v), want %v", what, got, there, want)
		}
	}
	// The answer over HTTP has tokens, too.
	for kind, least := range map[string]int{"prompt": usage.Prompt, "cached": usage.Cached, "completion": usage.Completion} {
		if got := e.sum("windhover_tokens_total", fmt.Sprintf("kind=%q", kind)); got < float64(least) || got > float64(least+64) {
			t.Errorf("%v tokens of kind %s, %d of them by MQTT", got, kind, least)
		}
	}
	for _, secret := range []string{"good-client", "web-user", "made-up", "evil", "job-one"} {
		if strings.Contains(e.text, secret) {
			t.Errorf("%q is in the metrics", secret)
		}
	}
	if list := e.shrunk(first); len(list) > 0 {
		t.Errorf("less than before: %v", list)
	}
	heldToDocs(t, e)
}

// heldToDocs compares the metrics with docs/HTTP.md, in both directions.
func heldToDocs(t *testing.T, e *exposition) {
	t.Helper()
	kinds, labels := documentedMetrics(t)
	notAlways := map[string]bool{"windhover_thermal_celsius": true}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		if e.kinds[name] == "" && notAlways[name] {
			continue
		}
		want := map[string]bool{}
		for _, l := range labels[name] {
			want[l] = true
		}
		if e.kinds[name] != kinds[name] || !maps.Equal(e.labels(name), want) {
			t.Errorf("%s: a %q with labels %v; docs/HTTP.md says %q, %v", name, e.kinds[name], e.labels(name), kinds[name], labels[name])
		}
	}
	for name := range e.kinds {
		if strings.HasPrefix(name, "windhover_") && kinds[name] == "" {
			t.Errorf("%s is not in docs/HTTP.md", name)
		}
		if e.helps[name] == "" {
			t.Errorf("%s has no help", name)
		}
	}
	for _, name := range []string{"windhover_time_to_first_token_seconds", "windhover_request_duration_seconds", "windhover_time_per_output_token_seconds"} {
		if n := strings.Count(e.text, name+"_bucket{"); n < 12 || n > 20 {
			t.Errorf("%s has %d buckets", name, n)
		}
	}
	if !strings.Contains(e.text, `first_token_seconds_bucket{le="0.01"}`) || !strings.Contains(e.text, `first_token_seconds_bucket{le="120"}`) {
		t.Error("the first token: no buckets from 10 ms to 2 minutes")
	}
}

// telephone is a line to a broker that can be cut.
type telephone struct {
	addr string

	mu    sync.Mutex
	calls []net.Conn
}

func newTelephone(t *testing.T, to string) *telephone {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &telephone{addr: l.Addr().String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close() // as a broker does that goes
				continue
			}
			p.mu.Lock()
			p.calls = append(p.calls, in, out)
			p.mu.Unlock()
			for _, c := range [][2]net.Conn{{in, out}, {out, in}} {
				wg.Go(func() {
					_, _ = io.Copy(c[0], c[1]) // until either is gone
					_, _ = c[0].Close(), c[1].Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.hangUp()
		wg.Wait()
	})
	return p
}

// hangUp ends all calls.
func (p *telephone) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		_ = c.Close() // some are
	}
	p.calls = nil
}
