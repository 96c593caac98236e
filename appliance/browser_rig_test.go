// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// browser is a Chromium without a screen, spoken to by its DevTools protocol through a
// pair of pipes: messages of JSON that end with a zero byte.
type browser struct {
	t       *testing.T
	in      io.Writer
	session string

	mu      sync.Mutex // guards what follows
	next    int
	answers map[int]chan devAnswer
	noise   []string // what the console says that it should not
}

type devAnswer struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// startBrowser opens a page, or skips the test where there is no Chromium.
func startBrowser(t *testing.T, url string) *browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("WINDHOVER_REQUIRE_CHROMIUM") != "" {
			t.Fatal("chromium is missing: apt install chromium")
		}
		t.Skip("there is no chromium")
	}
	theirs, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--no-proxy-server", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{theirs, ours} // 3 and 4, as that flag wants them
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = theirs.Close(), ours.Close() // the browser has its own
	b := &browser{t: t, in: in, answers: map[int]chan devAnswer{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b.read(out)
	}()
	t.Cleanup(func() {
		_ = in.Close() // ends it
		_ = cmd.Wait() // by which status does not matter
		<-read
		_ = out.Close()
	})
	var target struct {
		ID string `json:"targetId"`
	}
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var session struct {
		ID string `json:"sessionId"`
	}
	b.call("Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &session)
	b.session = session.ID
	for _, domain := range []string{"Page", "Runtime", "Log", "DOM", "Accessibility"} {
		b.call(domain+".enable", nil, nil)
	}
	b.open(url)
	return b
}

func (b *browser) read(r io.Reader) {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		var m struct {
			ID     int    `json:"id"`
			Method string `json:"method"`
			Params struct {
				Entry struct {
					Level, Source, Text, URL string
				}
				ExceptionDetails json.RawMessage
			}
			devAnswer
		}
		if json.Unmarshal(line[:len(line)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		switch {
		case m.ID != 0:
			if c := b.answers[m.ID]; c != nil {
				c <- m.devAnswer
				delete(b.answers, m.ID)
			}
		case m.Method == "Runtime.exceptionThrown":
			b.noise = append(b.noise, string(m.Params.ExceptionDetails))
		case m.Method == "Log.entryAdded" && (m.Params.Entry.Level == "error" || m.Params.Entry.Level == "warning"):
			b.noise = append(b.noise, fmt.Sprintf("%+v", m.Params.Entry))
		}
		b.mu.Unlock()
	}
}

// call asks the browser for something and decodes its answer into result.
func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	c := make(chan devAnswer, 1)
	b.mu.Lock()
	b.next++
	id := b.next
	b.answers[id] = c
	b.mu.Unlock()
	p, err := json.Marshal(struct {
		ID      int    `json:"id"`
		Method  string `json:"method"`
		Params  any    `json:"params,omitempty"`
		Session string `json:"sessionId,omitempty"`
	}{id, method, params, b.session})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(p, 0)); err != nil {
		b.t.Fatal(err)
	}
	select {
	case a := <-c:
		if a.Error != nil {
			b.t.Fatalf("%s: %s", method, a.Error.Message)
		}
		if result == nil {
			return
		}
		if err := json.Unmarshal(a.Result, result); err != nil {
			b.t.Fatalf("%s: %v in %s", method, err, a.Result)
		}
	case <-time.After(waitFor):
		b.t.Fatalf("%s: no answer", method)
	}
}

// eval is the value of a JavaScript expression in the page.
func (b *browser) eval(expression string) any {
	b.t.Helper()
	var r struct {
		Result struct {
			Value any `json:"value"`
		} `json:"result"`
		Exception json.RawMessage `json:"exceptionDetails"`
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &r)
	if r.Exception != nil {
		b.t.Fatalf("%s: %s", expression, r.Exception)
	}
	return r.Result.Value
}

// until waits for a JavaScript condition.
func (b *browser) until(condition string) {
	b.t.Helper()
	until(b.t, condition, func() bool { return b.eval(condition) == true })
}

func (b *browser) open(url string) {
	b.t.Helper()
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	b.until(`location.href !== "about:blank" && document.readyState === "complete"`)
}

// choose puts a file into a file input.
func (b *browser) choose(selector, file string) {
	b.t.Helper()
	var r struct {
		Result struct {
			ID string `json:"objectId"`
		} `json:"result"`
	}
	b.call("Runtime.evaluate", map[string]any{"expression": fmt.Sprintf("document.querySelector(%q)", selector)}, &r)
	b.call("DOM.setFileInputFiles", map[string]any{"objectId": r.Result.ID, "files": []string{file}}, nil)
}

// press presses a key as a person does.
func (b *browser) press(key string, code int, text string) {
	b.t.Helper()
	down := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code}
	if text != "" {
		down["text"] = text
	}
	b.call("Input.dispatchKeyEvent", down, nil)
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code}, nil)
}

// screen sets width, height and scheme.
func (b *browser) screen(width, height int, scheme string) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// shot takes a picture of the whole page, for people, where the environment says into
// which directory.
func (b *browser) shot(name string) {
	b.t.Helper()
	dir := os.Getenv("WINDHOVER_SCREENSHOTS")
	if dir == "" {
		return
	}
	var r struct {
		Data string `json:"data"`
	}
	// The picture is as wide as the page beside its bar, and has none: the page would be cut.
	b.call("Emulation.setScrollbarsHidden", map[string]any{"hidden": true}, nil)
	b.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &r)
	b.call("Emulation.setScrollbarsHidden", map[string]any{"hidden": false}, nil)
	data, err := base64.StdEncoding.DecodeString(r.Data)
	if err != nil {
		b.t.Fatal(err)
	}
	writeBytes(b.t, filepath.Join(dir, name+".png"), data)
}

// quiet fails the test when the console said something: an error of the script, a
// resource that is missing, something that the policy of the page forbids.
func (b *browser) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.noise {
		b.t.Errorf("console: %s", n)
	}
}
