// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"windhover/control"
)

// secret stands in whatever a client says, secretAnswer what the model says to it.
const (
	secret       = "kumquat-7391"
	secretAnswer = "Tiny model."
)

// startLogged runs an appliance whose log is out, with a model that answers, and
// returns how to stop it.
func startLogged(t *testing.T, out *LogOutput, change func(*Config)) (*box, func()) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Device = "box"
	cfg.Paths.State = t.TempDir()
	cfg.Paths.Trust = filepath.Join(cfg.Paths.State, "trust.d")
	cfg.MQTT.Embedded.Listen, cfg.HTTP.Listen = freePort(t), freePort(t)
	cfg.Engine.Threads, cfg.Engine.Pin = 1, false
	if change != nil {
		change(&cfg)
	}
	if err := cfg.finish(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, cfg, ServeOptions{Log: out.Logger(), Out: out, Self: []string{"/bin/false"}, Load: func() (Loaded, error) { return Loaded{Config: cfg}, nil }})
	}()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	b := &box{cfg: cfg}
	b.connected(t)
	b.drop(t, "m.vqf", tinyModel(t, nil))
	b.ready(t, "m")
	return b, stop
}

// questions are requests that have the secret in them, right and wrong ones: by
// operation for MQTT, by path for HTTP.
func questions() map[string][]string {
	long, _ := json.Marshal(strings.Repeat(secret+" ", 2000))
	bodies := []string{
		`{"max_tokens":16,"temperature":0,"messages":[{"role":"user","content":"Who are you?"}]}`,
		`{"max_tokens":4,"messages":[{"role":"user","content":"KEY"}]}`,
		`{"messages":[{"role":"user","content":` + string(long) + `}]}`, // overflow
		`{"max_tokens":4,"stop":["KEY",""],"messages":[{"role":"user","content":"x"}]}`,
		`{"max_tokens":4,"stop":["KEY"],"messages":[{"role":"user","content":"x"}]}`,
		`{"messages":[{"role":"KEY","content":"x"}]}`,
		`{"messages":[{"role":"user","content":{"KEY":1}}]}`,
		`{"messages":[{"role":"user","content":[{"type":"KEY"}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"image","file":"KEY"}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"image","file":"../KEY"}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"image","data":"KEY!"}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"image","data":"a3VtcXVhdC03Mzkx"}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://KEY/"}}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/KEY;base64,KEY"}}]}]}`,
		`{"max_tokens":4,"json_schema":{"type":"KEY"},"messages":[{"role":"user","content":"x"}]}`,
		`{"max_tokens":4,"json_schema":{"properties":{"KEY":{"pattern":"(KEY"}}},"messages":[{"role":"user","content":"x"}]}`,
		`{"max_tokens":4,"json_schema":{"type":"object","properties":{"KEY":{"const":"KEY"}},"required":["KEY"]},"messages":[{"role":"user","content":"x"}]}`,
		`{"response_format":{"type":"KEY"},"messages":[{"role":"user","content":"x"}]}`,
		`{"response_format":{"type":"json_schema","json_schema":{"schema":{"$ref":"#/KEY"}}},"messages":[{"role":"user","content":"x"}]}`,
		`{"max_tokens":4,"tools":[{"type":"function","function":{"name":"KEY","parameters":{"type":"KEY"}}}],"messages":[{"role":"user","content":"x"}]}`,
		`{"max_tokens":8,"tool_choice":"required","tools":[{"type":"function","function":{"name":"KEY","parameters":{"type":"object","properties":{"KEY":{"const":"KEY"}},"required":["KEY"]}}}],"messages":[{"role":"user","content":"x"}]}`,
		`{"tools":[{"type":"function","function":{"name":"a","strict":true,"parameters":{"type":"object","properties":{"KEY":{"KEY":1}}}}}],"messages":[{"role":"user","content":"x"}]}`,
		`{"tools":[{"type":"function","function":{"name":"a","strict":"KEY"}}],"messages":[{"role":"user","content":"x"}]}`,
		`{"tool_choice":"KEY","tools":[{"type":"function","function":{"name":"a"}}],"messages":[{"role":"user","content":"x"}]}`,
		`{"tool_choice":{"name":"KEY"},"tools":[{"type":"function","function":{"name":"a"}}],"messages":[{"role":"user","content":"x"}]}`,
		`{"messages":[{"role":"assistant","tool_calls":["KEY"]},{"role":"tool","tool_call_id":"KEY","content":"KEY"}],"max_tokens":4}`,
		`{"model":"KEY","prompt":"KEY"}`, `{"id":"KEY KEY","prompt":"KEY"}`, `{"truncate":"KEY","prompt":"KEY"}`, `{"sent_at":"KEY","prompt":"KEY"}`,
		`{"prompt":"KEY","max_tokens":4}`, `{"prompt":["KEY"]}`, `{"prompt":"KEY","temperature":"KEY"}`, `{"text":"KEY"}`, `{"texts":["KEY",""]}`, `{"input":["KEY"],"encoding_format":"KEY"}`, `{"input":"KEY"}`,
		`{"prompt":"KEY`, `KEY`, `"KEY"`, `["KEY"]`, "{\"prompt\":\"KEY\xff\"}", `{"prompt":"KEY","max_tokens":-1}`,
	}
	for i, body := range bodies {
		bodies[i] = strings.ReplaceAll(body, "KEY", secret)
	}
	return map[string][]string{
		control.OpChat: bodies, control.OpGenerate: bodies, control.OpTokenize: bodies, control.OpEmbed: bodies, control.OpPrompt: {secret, strings.Repeat(secret, 8000)},
		"/v1/chat/completions": bodies, "/v1/completions": bodies, "/v1/embeddings": bodies,
	}
}

// askAll puts every question, each by its own client, and returns how many answers and
// refusals came, with what the broker has retained.
func (b *box) askAll(t *testing.T) (n int, retained string) {
	t.Helper()
	o := mqtt.NewClientOptions().AddBroker("tcp://" + b.cfg.MQTT.Embedded.Listen).SetClientID("asker")
	c := mqtt.NewClient(o)
	if tok := c.Connect(); !tok.WaitTimeout(waitFor) || tok.Error() != nil {
		t.Fatal(tok.Error())
	}
	defer c.Disconnect(100)
	ends := make(chan struct{}, 1024)
	topics := control.Topics{Device: b.cfg.Device}
	if tok := c.Subscribe(topics.Reply("+", "+"), 1, func(_ mqtt.Client, m mqtt.Message) {
		if r, err := control.DecodeReply(m.Payload()); err == nil && r.Terminal() {
			ends <- struct{}{}
		}
	}); !tok.WaitTimeout(waitFor) || tok.Error() != nil {
		t.Fatal(tok.Error())
	}
	for where, bodies := range questions() {
		for i, body := range bodies {
			if strings.HasPrefix(where, "/") {
				b.ask(t, i%2 == 0, "POST", where, strings.NewReader(body), "Authorization", "Bearer "+secret)
				n++
				continue
			}
			if tok := c.Publish(topics.Request(fmt.Sprint(where, i), where), 1, false, body); !tok.WaitTimeout(waitFor) || tok.Error() != nil {
				t.Fatal(tok.Error())
			}
			select {
			case <-ends:
				n++
			case <-time.After(waitFor):
				t.Fatalf("no answer to %s %.80s", where, body)
			}
		}
	}
	var mu sync.Mutex
	var docs strings.Builder
	if tok := c.Subscribe("#", 0, func(_ mqtt.Client, m mqtt.Message) {
		if mu.Lock(); m.Retained() {
			docs.WriteString(m.Topic() + " " + string(m.Payload()) + "\n")
		}
		mu.Unlock()
	}); !tok.WaitTimeout(waitFor) || tok.Error() != nil {
		t.Fatal(tok.Error())
	}
	until(t, "retained documents", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Contains(docs.String(), topics.Info()) && strings.Contains(docs.String(), topics.Model("m"))
	})
	mu.Lock()
	defer mu.Unlock()
	return n, docs.String()
}

// No word of a question or an answer is anywhere but in the answer: not in the log at
// debug in any format, not in metrics, diag, the page and documents, not in files.
func TestNoPromptAnywhere(t *testing.T) {
	for _, format := range formats {
		t.Run(format, func(t *testing.T) {
			var log lines
			out, _ := outputOf(t, format, &log, Log{Level: "debug"})
			b, stop := startLogged(t, out, func(c *Config) { c.Log.Level, c.Log.Burst = "debug", 0 })
			n, retained := b.askAll(t)
			places := map[string]string{"retained documents": retained}
			for _, path := range []string{"/metrics", "/", "/panel", "/v1/models", "/healthz"} {
				_, body := b.ask(t, false, "GET", path, nil)
				places[path] = string(body)
			}
			_, body := b.ask(t, true, "GET", "/v1/status", nil)
			places["status"] = string(body)
			_, body = b.ask(t, true, "GET", "/v1/jobs", nil)
			places["jobs"] = string(body)
			stop()
			places["log"] = log.String()
			for _, step := range []string{"request accepted", "request refused", "request started", "request has its first token", "request ended", "http request", "mqtt subscribed", "drop entry looked at"} {
				if !strings.Contains(places["log"], step) {
					t.Errorf("debug has no %q", step)
				}
			}
			if got := strings.Count(places["log"], "request refused") + strings.Count(places["log"], "request ended"); got < n/2 {
				t.Errorf("%d ends are logged of %d requests", got, n)
			}
			err := filepath.WalkDir(b.cfg.Paths.State, func(path string, d fs.DirEntry, err error) error {
				if err != nil || !d.Type().IsRegular() {
					return err
				}
				if rel, _ := filepath.Rel(b.cfg.Paths.State, path); strings.HasPrefix(rel, "broker"+string(filepath.Separator)) || strings.HasSuffix(rel, ".vqf") {
					return nil // the broker's own store, which SECURITY.md tells of, and the model
				}
				raw, err := os.ReadFile(path)
				places["file "+path] = string(raw)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			for place, text := range places {
				for _, word := range []string{secret, secretAnswer} {
					if i := strings.Index(text, word); i >= 0 {
						t.Errorf("%s has %q: …%.200s", place, word, text[max(0, i-200):])
					}
				}
			}
		})
	}
}

// A box that answers a hundred thousand requests a day has no record of one at info,
// wrong ones included.
func TestInfoHasNoRequests(t *testing.T) {
	var log lines
	out, _ := outputOf(t, "text", &log, Log{Level: "info"})
	b, stop := startLogged(t, out, nil)
	b.askAll(t)
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "request") || strings.Contains(line, "client=") || strings.Contains(line, " id=") || strings.Contains(line, "HTTP") && !strings.Contains(line, `msg="HTTP listens"`) {
			t.Errorf("a request is told of: %.300s", line)
		}
	}
	stop()
}

// With log.prompts the words are there, cut, and whoever starts it is warned.
func TestPromptsAreLoggedWhenAsked(t *testing.T) {
	var log lines
	out, _ := outputOf(t, "text", &log, Log{Level: "debug"})
	b, stop := startLogged(t, out, func(c *Config) { c.Log.Prompts, c.Log.Burst = true, 0 })
	b.askAll(t)
	stop()
	text := log.String()
	for _, want := range []string{"level=WARN msg=\"prompts and answers are written to the log", "msg=prompt", secretAnswer, "msg=answer", `msg="request refused"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the log has no %q", want)
		}
	}
	if !strings.Contains(text, secret) {
		t.Error("no prompt is in the log")
	}
	for line := range strings.Lines(text) {
		if len(line) > textBytes+2*valueBytes {
			t.Errorf("a line of %d bytes: %.100s", len(line), line)
		}
	}
}

// What a panic says may be a prompt; where it happened is not.
func TestPanicsTellNoPrompt(t *testing.T) {
	for _, format := range formats {
		var log bytes.Buffer
		out, _ := outputOf(t, format, &log, Log{})
		s := &server{log: out.Logger()}
		s.notice(control.Notice{Event: control.NoticePanic, Client: "me", ID: "r", Incident: "w-1", Panic: secret, Stack: []byte("main.go:7")})
		web := httptest.NewServer(watched(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			panic(fmt.Errorf("about %s", r.Header.Get("X")))
		}), out.Logger()))
		r, err := http.NewRequest("GET", web.URL+"/x?q="+secret, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X", secret)
		if _, err := http.DefaultClient.Do(r); err == nil {
			t.Error("a panic is answered")
		}
		web.Close()
		got := log.String()
		if strings.Contains(got, secret) || !strings.Contains(got, "panic with a string") || !strings.Contains(got, "main.go:7") || !strings.Contains(got, "log_prompts_test.go") || !strings.Contains(got, "w-1") {
			t.Errorf("%s: %s", format, got)
		}
		if n := strings.Count(got, "\n"); n != 2 {
			t.Errorf("%s: %d lines", format, n)
		}
		log.Reset()
		s.cfg.Log.Prompts = true
		s.notice(control.Notice{Event: control.NoticePanic, Panic: secret})
		if !strings.Contains(log.String(), secret) {
			t.Errorf("%s: log.prompts leaves it out: %s", format, log.String())
		}
	}
	var null []int
	func() {
		defer func() {
			if got := panicText(recover()); !strings.Contains(got, "index out of range") {
				t.Errorf("the runtime's own: %q", got)
			}
		}()
		_ = null[len(secret)]
	}()
}
