// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"windhover/appliance/web"
	"windhover/control"
)

// shownBox is a box in a state that a test makes up.
type shownBox struct {
	hold chan struct{} // closed: uploads and answers go on

	mu   sync.Mutex // guards what follows
	view web.View
}

var _ web.Box = (*shownBox)(nil)

func (b *shownBox) View() web.View {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.view
}

func (b *shownBox) show(v web.View) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.view = v
}

func (b *shownBox) Models() []control.Model { return b.View().Models }

// Ask thinks, says the begin of an answer, and the rest when it may go on.
func (b *shownBox) Ask(ctx context.Context, _ *control.Request, reply func(*control.Reply) error) error {
	delta := func(thinking, text string) *control.Reply {
		return &control.Reply{Type: control.TypeDelta, ID: "w-1", Delta: &control.Delta{Thinking: thinking, Text: text, N: 1}}
	}
	for i, r := range []*control.Reply{
		{Type: control.TypeAccepted, ID: "w-1", Accepted: &control.Accepted{Model: "qwen3-0.6b@1"}},
		{Type: control.TypeProgress, ID: "w-1", Progress: &control.Progress{Phase: "prefill", Done: 512, Total: 2048}},
		delta("The person asks which birds of prey hover. Kestrels do, and rough-legged buzzards now and then. ", ""),
		delta("", "Kestrels hover, and so do some buzzards:\n\n  1. common kestrel, Falco tinnunculus\n  2. rough-legged buzzard\n\n"),
		delta("", "func hover(wind float64) { for { face(wind) } } // "+strings.Repeat("averylongwordwithoutanyspace", 8)),
		{Type: control.TypeDone, ID: "w-1", Done: &control.Done{Finish: control.FinishStop, Usage: &control.Usage{Prompt: 20, Completion: 90},
			Model: &control.ModelRef{Name: "qwen3-0.6b", Version: "1", SHA256: "5f0c"}, Timing: &control.Timing{DecodeTPS: 12.3}}},
	} {
		if i == 3 || i == 5 {
			select {
			case <-b.hold:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := reply(r); err != nil {
			return err
		}
	}
	return nil
}

// Drop takes a part, and the rest when it may go on.
func (b *shownBox) Drop(ctx context.Context, _ string, _ int64, r io.Reader) (int64, error) {
	n, err := io.CopyN(io.Discard, r, 8<<20)
	if err != nil {
		return n, err
	}
	select {
	case <-b.hold:
	case <-ctx.Done():
		return n, ctx.Err()
	}
	return io.Copy(io.Discard, r)
}

// serving8GB is a box that is well.
func serving8GB() web.View {
	at := time.Date(2026, 11, 30, 9, 15, 0, 0, time.UTC)
	return web.View{
		Device: "edge1", Version: "1.0.0", Board: "Radxa ROCK 5B", State: "online", MQTT: "mqtt://127.0.0.1:1883", Connected: true, Drop: "/var/lib/windhover/drop", RAMBytes: 8 << 30,
		Models: []control.Model{
			{Name: "qwen3-0.6b", Version: "1.2", State: stateReady, Default: true, Arch: "qwen3", Mode: "q4", Bytes: 430 << 20, Context: 32768, Residency: "full", Trust: "fleet", Pictures: &control.Pictures{}},
			{Name: "smollm2", Version: "1", State: stateReady, Arch: "llama", Mode: "q8", Bytes: 140 << 20, Context: 8192, Residency: "full", Trust: "local"},
		},
		Stats: control.Stats{UptimeS: 266461, Active: 1, Queue: 2, DecodeTokS: 12.3, PrefillTokS: 176.1, RSSBytes: 700 << 20, MemAvailable: 6 << 30, DiskFree: 41 << 30, TempC: 61.2},
		Hour:  web.Hour{Requests: 214, Prompt: 51234, Cached: 30001, Completion: 18211, PrefillTokS: 161, DecodeTokS: 11.8},
		Jobs: []control.JobRecord{
			{ID: "w-IRKXCEGDYSVKDW4E", Type: "verify", Client: "ops", Status: control.JobSucceeded},
			{ID: "nightly-7", Type: "convert", Client: "ops", Status: control.JobRunning, Phase: "quantizing", Progress: control.JobFraction{Done: 37, Total: 100, Pct: 37}},
			{ID: "j2", Type: "gc", Client: "ops", Status: control.JobRunning, Phase: "looking"},
		},
		Events: []control.Occurrence{{At: at, Event: "model_ready", Model: "smollm2", Message: "version 1"}, {At: at.Add(time.Minute), Event: "model_ready", Model: "qwen3-0.6b", Message: "version 1.2"}},
	}
}

// troubled is one of which nothing is well, and everything has a long name.
func troubled() web.View {
	long := strings.Repeat("qwen3-30b-a3b-instruct-", 2) + "q4_k_m"
	v := serving8GB()
	v.Device, v.Board = strings.Repeat("edge-", 12)+"one", "A board whose firmware has a very long opinion of what it is called"
	v.State, v.MQTT, v.Connected = "degraded", "mqtts://broker.of-a-site-with-a-long-name.example.org:8883 (not connected)", false
	v.Models = append(v.Models, control.Model{Name: long, Version: "2026.11.30-rc.1+build.1234567", State: "failed", Arch: "qwen3moe",
		Error: control.Errorf(control.InsufficientMem, "vqf: /var/lib/windhover/drop/%s.vqf: needs 17.7 GB, and 6.1 GB are there: use q4, a smaller context or a smaller model", long)},
		control.Model{Name: "arrives-" + long, State: "waiting", Bytes: 17 << 30, Have: 5 << 30}, control.Model{Name: "loads", State: "loading", Bytes: 1 << 30})
	v.Models[1].Name, v.Models[1].Tentative = long+"-serves", true
	v.Stats.Throttled, v.Stats.RestingCores, v.Stats.TempC, v.Stats.DiskFree, v.Stats.MemAvailable = true, 2, 104, 200<<20, 300<<20
	v.Jobs = append(v.Jobs, control.JobRecord{ID: strings.Repeat("id", 32), Type: "model_install", Client: strings.Repeat("client.", 9), Status: control.JobFailed,
		Error: control.Errorf(control.DigestMismatch, "the file has another digest than the document says: %s", strings.Repeat("0123456789abcdef", 4))})
	v.Events = append(v.Events, control.Occurrence{At: time.Now(), Event: "model_failed", Model: long, Code: "insufficient_memory", Message: "needs " + strings.Repeat("17.7 GB, ", 30)})
	return v
}

// sizes are those that the page is looked at in.
var sizes = []struct {
	name          string
	width, height int
}{{"small", 320, 568}, {"phone", 390, 844}, {"desktop", 1280, 900}}

// fits checks the page at each size in both schemes: nothing stands out at the side, all
// text stands out from its ground, and what is to be touched has room for a thumb.
func (b *browser) fits(name string) {
	b.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		for _, s := range sizes {
			b.screen(s.width, s.height, scheme)
			b.shot(name + "-" + s.name + "-" + scheme)
			if over := b.eval(`document.documentElement.scrollWidth - document.documentElement.clientWidth`); over != 0.0 {
				b.t.Errorf("%s, %s: %v pixels stand out", name, s.name, over)
			}
			if out := b.eval(standsOut); out != "" {
				b.t.Errorf("%s, %s: beyond its box: %v", name, s.name, out)
			}
			if low := b.eval(contrast); low != "" {
				b.t.Errorf("%s, %s, %s: too little contrast: %v", name, s.name, scheme, low)
			}
			if small := b.eval(smallTargets); small != "" {
				b.t.Errorf("%s, %s: too small for a thumb: %v", name, s.name, small)
			}
		}
	}
}

// standsOut names what is wider than the section that it is in.
const standsOut = `[...document.querySelectorAll("section *")].filter((e) => {
	const r = e.getBoundingClientRect(), s = e.closest("section").getBoundingClientRect();
	return r.width > 0 && (r.left < s.left - 1 || r.right > s.right + 1);
}).map((e) => e.tagName + "#" + e.id + "." + e.className).join(" ")`

// smallTargets names what is lower or narrower than 44 pixels and is touched.
const smallTargets = `[...document.querySelectorAll("button, input, select, textarea, summary")].filter((e) => {
	const r = e.getBoundingClientRect();
	return r.width > 0 && (r.height < 44 || r.width < 44);
}).map((e) => e.tagName + " " + e.id).join(", ")`

// The page in each state that a box has.
func TestPageStates(t *testing.T) {
	box := &shownBox{hold: make(chan struct{})}
	box.show(web.View{Device: "edge1", Version: "1.0.0", Board: "Radxa ROCK 5B", State: "online", MQTT: "mqtt://127.0.0.1:1883", Connected: true,
		Drop: "/var/lib/windhover/drop", RAMBytes: 8 << 30, Stats: control.Stats{UptimeS: 42, RSSBytes: 40 << 20, MemAvailable: 7 << 30, DiskFree: 50 << 30, TempC: 41}})
	srv := httptest.NewServer(web.New(box, web.Options{Client: "http"}))
	defer srv.Close()
	w := startBrowser(t, srv.URL+"/")
	w.fits("empty")
	if w.eval(`document.getElementById("send").disabled && !document.getElementById("nobody").hidden && document.getElementById("wrong") === null`) != true {
		t.Error("an empty box: it can be asked, or does not say why not, or complains")
	}

	loading := box.View()
	loading.Models = []control.Model{{Name: "qwen3-0.6b", State: "loading", Bytes: 430 << 20, Arch: "qwen3", Mode: "q4"}, {Name: "smollm2", State: "waiting", Bytes: 140 << 20, Have: 50 << 20}}
	box.show(loading)
	w.until(`document.querySelector("[data-state=loading]") !== null`)
	w.fits("loading")

	box.show(serving8GB())
	w.until(`document.querySelectorAll("[data-state=ready]").length === 2 && document.getElementById("nobody").hidden`)
	w.fits("serving")

	file := filepath.Join(t.TempDir(), "large.vqf")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(64 << 20); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	w.choose("#file", file)
	w.eval(`document.getElementById("put").click()`)
	w.until(`document.getElementById("upload-state").textContent.includes("of 64 MiB")`)
	w.eval(`document.getElementById("text").focus()`)
	w.call("Input.insertText", map[string]any{"text": "Which birds of prey hover?"}, nil)
	w.press("Enter", 13, "\r")
	w.until(`document.getElementById("chat-state").textContent === "thinking" && document.querySelector(".turn details") !== null`)
	w.fits("thinking-and-upload")
	close(box.hold)
	w.until(`document.getElementById("stop").disabled && document.getElementById("upload-state").textContent.startsWith("large.vqf is there")`)
	if got := w.eval(`document.getElementById("chat-state").textContent`); got != "12.3 tokens a second" {
		t.Errorf("at the end of an answer: %v", got)
	}
	if got := fmt.Sprint(w.eval(`document.querySelector(".turn.assistant > span").textContent`)); !strings.HasPrefix(got, "Kestrels hover") {
		t.Errorf("the answer reads %q", got)
	}
	w.eval(`document.querySelector(".turn summary").click()`)
	w.fits("answered")

	box.show(troubled())
	w.until(`document.querySelectorAll("#wrong li").length === 5`)
	w.fits("trouble")
	w.quiet()

	srv.CloseClientConnections()
	srv.Listener.Close()
	w.until(`document.getElementById("stale").textContent !== ""`)
	w.screen(390, 844, "light")
	w.shot("gone-phone-light")
}

// Without its script the page can be read, and says what does not work.
func TestPageWithoutScript(t *testing.T) {
	box := &shownBox{}
	box.show(serving8GB())
	srv := httptest.NewServer(web.New(box, web.Options{Client: "http"}))
	defer srv.Close()
	w := startBrowser(t, "about:blank#")
	w.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	w.call("Page.navigate", map[string]any{"url": srv.URL + "/"}, nil)
	var tree struct {
		Nodes []struct {
			Role struct{ Value string }
			Name struct{ Value string }
		}
	}
	text := ""
	until(t, "the page is there", func() bool {
		w.call("Accessibility.getFullAXTree", nil, &tree)
		text = ""
		for _, n := range tree.Nodes {
			if n.Role.Value == "StaticText" || n.Role.Value == "button" {
				text += n.Name.Value + "\n"
			}
		}
		return strings.Contains(text, "Add a model")
	})
	for _, want := range []string{"qwen3-0.6b", "12.3", "nightly-7", "61 °C", "model_ready", "needs the script"} {
		if !strings.Contains(text, want) {
			t.Errorf("without the script there is no %q", want)
		}
	}
	for _, no := range []string{"Send\n", "Upload\n"} {
		if strings.Contains(text, no) {
			t.Errorf("without the script there is a button %q that does nothing", no)
		}
	}
	for _, s := range sizes {
		w.screen(s.width, s.height, "light")
		w.shot("noscript-" + s.name + "-light")
	}
}

// Who wants nothing to move is shown bars that stand still, and who goes by keyboard
// sees where he is.
func TestPageReducedMotion(t *testing.T) {
	box := &shownBox{}
	box.show(serving8GB())
	srv := httptest.NewServer(web.New(box, web.Options{Client: "http"}))
	defer srv.Close()
	w := startBrowser(t, srv.URL+"/")
	w.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-reduced-motion", "value": "reduce"}}}, nil)
	if got := w.eval(`getComputedStyle(document.querySelector("progress:not([value])")).appearance`); got != "none" {
		t.Errorf("a bar of a job that does not know how far it is moves: appearance %v", got)
	}
	if got := w.eval(`document.getAnimations().length`); got != 0.0 {
		t.Errorf("%v animations", got)
	}
	if got := w.eval(`document.getElementById("log").getAttribute("aria-live") + document.getElementById("chat-state").getAttribute("role")`); got != "politestatus" {
		t.Errorf("an answer is read out by %v", got)
	}
}
