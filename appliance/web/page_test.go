// SPDX-License-Identifier: Apache-2.0

package web

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"windhover/control"
)

const nasty = `<script>alert(1)</script>"'`

func fullView() View {
	return View{
		Device: "edge1", Version: "1.2", Board: nasty, State: "online", MQTT: "mqtt://127.0.0.1:1883", Drop: "/var/lib/windhover/drop", RAMBytes: 8 << 30,
		Models: []control.Model{
			{Name: "second", State: ready, Context: 512, Bytes: 5 << 20},
			{Name: "first", State: ready, Default: true, Context: 4096, Bytes: 3 << 30, Pictures: &control.Pictures{}},
			{Name: "broken", State: "failed", Error: control.Errorf(control.FormatInvalid, "%s", nasty)},
			{Name: "coming", State: "waiting", Bytes: 1000, Have: 250},
		},
		Stats: control.Stats{UptimeS: 90061, Queue: 3, Active: 2, DecodeTokS: 12.34, MemAvailable: 2 << 30, TempC: 71, Throttled: true, RestingCores: 2},
		Hour:  Hour{Requests: 1234, DecodeTokS: 11.1, Completion: 99999, Cached: 7},
		Jobs: []control.JobRecord{
			{ID: "j1", Type: "convert", Client: "me", Status: control.JobFailed, Error: control.Errorf(control.Internal, "boom")},
			{ID: "j2", Type: "verify", Client: "me", Status: control.JobRunning, Phase: "reading", Progress: control.JobFraction{Done: 1, Total: 4, Pct: 25}},
			{ID: "j3", Type: "gc", Client: "me", Status: control.JobQueued},
		},
		Events: []control.Occurrence{{At: time.Unix(0, 0), Event: "model_ready", Model: "first"}, {At: time.Unix(60, 0), Event: "model_failed", Model: "broken", Message: nasty}},
	}
}

func TestPageShows(t *testing.T) {
	h := New(&fakeBox{view: fullView()}, Options{})
	w := do(h, "GET", "/", "")
	body := w.Body.String()
	for _, want := range []string{
		"edge1", "8.0 GiB", "2.0 GiB of", "12.3", "11.1", "1\u202f234 answers", "71 °C", "slowed down because of heat", "2 cores at rest so that", "1 d 1 h",
		`value="25"`, "model_failed", "format_invalid", "boom", "sees pictures", `<meter min="0" max="100" high="90" value="75"`, "<dd>2</dd>", "<dd>3</dd>",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(body, "<script>alert") {
		t.Error("a text became markup")
	}
	if a, b := strings.Index(body, `<option value="first"`), strings.Index(body, `<option value="second"`); a < 0 || b < a {
		t.Errorf("the default model stands at %d, the other at %d", a, b)
	}
	if strings.Contains(body, `<option value="broken"`) {
		t.Error("a model that does not serve can be chosen")
	}
	if a, b := strings.Index(body, "model_failed"), strings.Index(body, "model_ready"); b < a {
		t.Error("the oldest event stands first")
	}
	panel := do(h, "GET", "/panel", "").Body.String()
	if !strings.Contains(body, strings.TrimSpace(panel)) {
		t.Error("the panel by itself is not the one in the page")
	}
}

// The header has what is known of the box, in the page and for the script alike.
func TestPageWhere(t *testing.T) {
	for board, want := range map[string]string{"Radxa ROCK 5B": "edge1 · Radxa ROCK 5B · version 1.2", "unknown": "edge1 · version 1.2", "": "edge1 · version 1.2"} {
		v := fullView()
		v.Board = board
		body := do(New(&fakeBox{view: v}, Options{}), "GET", "/", "").Body.String()
		if !strings.Contains(body, `<p id="where">`+want+`</p>`) || !strings.Contains(body, ` data-where="`+want+`"`) {
			t.Errorf("board %q: the header is not %q", board, want)
		}
	}
}

// Of one thing the page speaks as of one.
func TestPageCounts(t *testing.T) {
	v := fullView()
	for n, want := range map[int][]string{
		0: {"last hour: 0 answers, 0 tokens, 0 read"},
		1: {"last hour: 1 answer, 1 token, 1 read", "1 core at rest so that the machine", ", 1 core at rest<"},
		2: {"last hour: 2 answers, 2 tokens, 2 read", "2 cores at rest so that the machine", ", 2 cores at rest<"},
	} {
		v.Hour, v.Stats.RestingCores = Hour{Requests: n, Completion: n, Prompt: n}, n
		body := do(New(&fakeBox{view: v}, Options{}), "GET", "/", "").Body.String()
		for _, text := range want {
			if !strings.Contains(body, text) {
				t.Errorf("of %d the page does not say %q", n, text)
			}
		}
	}
}

// Nothing that is written into the page may run, and it loads nothing from elsewhere.
func TestPagePolicy(t *testing.T) {
	h := New(&fakeBox{view: fullView()}, Options{})
	w := do(h, "GET", "/", "")
	csp := w.Header().Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
		if !strings.Contains(csp, want) {
			t.Errorf("policy %q lacks %q", csp, want)
		}
	}
	if strings.Contains(csp, "unsafe") || strings.Contains(csp, "http") {
		t.Errorf("policy %q", csp)
	}
	body := w.Body.String()
	for _, pattern := range []string{`<script(?: [^>]*)?>[^<]`, ` on[a-z]+=`, ` style=`, `<style`, `javascript:`, `(?:src|href)="(?:https?:)?//`} {
		if m := regexp.MustCompile(pattern).FindString(body); m != "" {
			t.Errorf("the page has %q", m)
		}
	}
	for path, kind := range map[string]string{"/assets/page.js": "text/javascript; charset=utf-8", "/assets/page.css": "text/css; charset=utf-8"} {
		if w := do(h, "GET", path, ""); w.Code != 200 || w.Header().Get("Content-Type") != kind || w.Body.Len() == 0 {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
	}
	for _, path := range []string{"/assets/", "/assets/page.html", "/assets/../web.go", "/nothing"} {
		if w := do(h, "GET", path, ""); w.Code == 200 {
			t.Errorf("%s is served", path)
		}
	}
}

// Each control has a label, each section a name, each bar a text.
func TestPageNames(t *testing.T) {
	body := do(New(&fakeBox{view: fullView()}, Options{}), "GET", "/", "").Body.String()
	ids := map[string]int{}
	for _, m := range regexp.MustCompile(` id="([^"]+)"`).FindAllStringSubmatch(body, -1) {
		if ids[m[1]]++; ids[m[1]] > 1 {
			t.Errorf("id %q stands twice", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`<(?:input|select|textarea) id="([^"]+)"`).FindAllStringSubmatch(body, -1) {
		if !strings.Contains(body, `<label for="`+m[1]+`"`) {
			t.Errorf("%q has no label", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`aria-(?:labelledby|describedby)="([^"]+)"`).FindAllStringSubmatch(body, -1) {
		if ids[m[1]] != 1 {
			t.Errorf("nothing has the id %q", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`<(?:progress|meter)[^>]*>`).FindAllString(body, -1) {
		if !strings.Contains(m, "aria-label=") {
			t.Errorf("%s has no name", m)
		}
	}
	if !strings.Contains(body, `<html lang="en">`) || strings.Count(body, "<h1>") != 1 || strings.Count(body, "<main>") != 1 {
		t.Error("language, heading or main part is missing")
	}
}

// What is said of a model is what is known, and a box that is well needs no look.
func TestPageNeedsALook(t *testing.T) {
	well := View{Connected: true, Stats: control.Stats{DiskFree: lowDisk}}
	if list := wrong(&well); list != nil {
		t.Errorf("a box that is well: %q", list)
	}
	for name, c := range map[string]struct {
		ill  func(*View)
		want string
	}{
		"no broker":  {func(v *View) { v.Connected, v.MQTT = false, "waiting for broker" }, "No broker: waiting for broker."},
		"throttled":  {func(v *View) { v.Stats.Throttled = true }, "slowed down because of heat"},
		"resting":    {func(v *View) { v.Stats.RestingCores = 3 }, "3 cores at rest"},
		"disk":       {func(v *View) { v.Stats.DiskFree-- }, "511 MiB are free"},
		"model":      {func(v *View) { v.Models = []control.Model{{Name: "m", Error: control.Errorf(control.LoadFailed, "x")}} }, "Model m does not serve"},
		"never told": {func(v *View) { v.Stats.DiskFree = 0 }, "0 KiB are free"},
	} {
		v := well
		c.ill(&v)
		if list := wrong(&v); len(list) != 1 || !strings.Contains(list[0], c.want) {
			t.Errorf("%s: %q, want %q", name, list, c.want)
		}
	}
	for want, m := range map[string]control.Model{"": {Name: "m"}, "4\u202f096 tokens of context": {Context: 4096}, "qwen3 · q4 · 5 MiB": {Arch: "qwen3", Mode: "q4", Bytes: 5 << 20}} {
		if got := facts(m); got != want {
			t.Errorf("%+v: %q, want %q", m, got, want)
		}
	}
}

// In both schemes text stands out from what is behind it by 4.5, as WCAG 2.2 counts it
// (1.4.3), and what shows where a control is, or that it has the focus, by 3 (1.4.11).
func TestPageColours(t *testing.T) {
	css, err := files.ReadFile("assets/page.css")
	if err != nil {
		t.Fatal(err)
	}
	schemes := regexp.MustCompile(`:root \{([^}]*)\}`).FindAllStringSubmatch(string(css), -1)
	if len(schemes) != 2 {
		t.Fatalf("%d schemes", len(schemes))
	}
	for i, scheme := range schemes {
		light := map[string]float64{}
		for _, m := range regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2});`).FindAllStringSubmatch(scheme[1], -1) {
			for part, share := range []float64{0.2126, 0.7152, 0.0722} {
				n, err := strconv.ParseUint(m[2+part], 16, 8)
				if err != nil {
					t.Fatal(err)
				}
				v := float64(n) / 255
				if v <= 0.04045 {
					v /= 12.92
				} else {
					v = math.Pow((v+0.055)/1.055, 2.4)
				}
				light[m[1]] += share * v
			}
		}
		for least, pairs := range map[float64]string{
			4.5: "ink/ground ink/card ink/mine ink/bad-ground faint/ground faint/card faint/mine accent/card bad/card bad/ground bad/bad-ground on-accent/accent",
			3:   "faint/ground faint/card accent/ground accent/card accent/mine bad/card",
		} {
			for pair := range strings.FieldsSeq(pairs) {
				name, behind, _ := strings.Cut(pair, "/")
				a, isA := light[name]
				b, isB := light[behind]
				if ratio := (max(a, b) + 0.05) / (min(a, b) + 0.05); !isA || !isB || ratio < least {
					t.Errorf("scheme %d: %s %.2f, want %g", i, pair, ratio, least)
				}
			}
		}
	}
}
