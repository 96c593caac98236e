// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"windhover/appliance/audit"
	"windhover/control"
	"windhover/internal/testmodel"
)

// hex256 is how everybody else computes a digest: printf '%s' … | sha256sum.
func hex256(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// auditLines are the lines of a file, each held to the chain by what docs/OPERATIONS.md
// says of it and nothing else.
func auditLines(t *testing.T, path string) (lines []map[string]any, last string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	last = strings.Repeat("0", 64)
	for raw := range strings.Lines(string(text)) {
		raw = strings.TrimSuffix(raw, "\n")
		var l map[string]any
		if err := json.Unmarshal([]byte(raw), &l); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if l["prev"] != last || l["seq"] != float64(len(lines)+1) {
			t.Fatalf("line %d does not go on with %s: %s", len(lines)+1, last, raw)
		}
		last = hex256(raw)
		lines = append(lines, l)
	}
	return lines, last
}

func auditedBox(t *testing.T, change func(*Config)) *box {
	return startBox(t, func(c *Config) {
		c.Audit.File, c.Audit.Sync = filepath.Join(c.Paths.State, "audit", "audit.jsonl"), auditEach
		if change != nil {
			change(c)
		}
	})
}

// Who has a question, its answer and the model finds them in the record, by digests that
// any tool computes; no word of either is there.
func TestAuditEndToEnd(t *testing.T) {
	b := auditedBox(t, nil)
	model := tinyModel(t, nil)
	b.drop(t, "m.vqf", model)
	b.ready(t, "m")
	ctx, cancel := context.WithTimeout(context.Background(), waitFor)
	defer cancel()
	c := b.client(t, "anna")

	r := request("a secret question", 8)
	r.ID, r.Temperature = "r1", nil // sampled, with a seed that the box draws
	payload, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Send(ctx, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	bad := request("x", 8)
	bad.ID, bad.Model = "r2", "none"
	if _, err := c.Send(ctx, bad, nil); !errors.Is(err, control.UnknownModel) {
		t.Fatal(err)
	}
	body := `{"model": "m", "user": "bert", "seed": 11, "max_tokens": 32, "messages": [{"role": "user", "content": "Who are you?"}]}`
	code, reply := b.ask(t, false, "POST", "/v1/chat/completions", strings.NewReader(body))
	var said struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.Unmarshal(reply, &said); err != nil || code != 200 {
		t.Fatalf("%d %s", code, reply)
	}
	broken := `{"messages": 7}`
	if code, _ := b.ask(t, true, "POST", "/v1/chat/completions", strings.NewReader(broken)); code != 400 {
		t.Fatalf("status %d", code)
	}
	b.hup <- syscall.SIGHUP
	b.heard(t, "READY=1")

	var stats control.Stats
	until(t, "an anchor", func() bool {
		doc, err := LocalStatus(ctx, b.cfg)
		if err != nil {
			t.Fatal(err)
		}
		stats = doc.Stats
		return stats.AuditSeq >= 6 // start, model, three requests, one refused on the socket
	})
	if code, page := b.ask(t, false, "GET", "/metrics", nil); code != 200 || !bytes.Contains(page, []byte("windhover_audit_writable 1")) || !bytes.Contains(page, []byte("windhover_audit_lost_total 0")) {
		t.Errorf("metrics: %d", code)
	}
	b.restart(t)
	b.shutdown(t)

	lines, last := auditLines(t, b.cfg.Audit.File)
	by := map[string]map[string]any{}
	var kinds []string
	for i, l := range lines {
		kinds = append(kinds, l["kind"].(string))
		by[fmt.Sprint(l["kind"], " ", l["via"], " ", l["id"])] = l
		switch l["kind"] {
		case "request":
			by[fmt.Sprint(l["via"])] = l
		default:
			by[l["kind"].(string)] = l
		}
		if uint64(i+1) == stats.AuditSeq && i+1 < len(lines) && lines[i+1]["prev"] != stats.AuditHead {
			t.Errorf("the anchor was %d:%s", stats.AuditSeq, stats.AuditHead)
		}
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(model))
	one := by["request mqtt r1"]
	for key, want := range map[string]any{
		"client": "anna", "op": "generate", "model": "m", "model_sha256": digest, "code": "ok", "request_sha256": hex256(string(payload)),
		"answer_sha256": hex256(answer.Text), "finish": answer.Done.Finish, "completion_tokens": float64(answer.Done.Usage.Completion),
	} {
		if one[key] != want {
			t.Errorf("%s is %v, want %v", key, one[key], want)
		}
	}
	if two := by["request mqtt r2"]; two["code"] != "unknown_model" || two["model"] != nil || two["answer_sha256"] != nil {
		t.Errorf("refused: %v", two)
	}
	web := by["http"]
	if web["client"] != "bert" || web["request_sha256"] != hex256(body) || web["answer_sha256"] != hex256(said.Choices[0].Message.Content) || web["model_sha256"] != digest {
		t.Errorf("over HTTP: %v", web)
	}
	if o := web["options"].(map[string]any); o["seed"] != "11" || o["max_tokens"] != 32.0 {
		t.Errorf("options %v", o)
	}
	if x := by["socket"]; x["code"] != "bad_request" || x["request_sha256"] != hex256(broken) {
		t.Errorf("refused over HTTP: %v", x)
	}
	if m := by["model_activated"]; m["model"] != "m" || m["model_sha256"] != digest {
		t.Errorf("model: %v", m)
	}
	if s, r := by["start"]["config_sha256"], by["config_reload"]["config_sha256"]; s == nil || s != r {
		t.Errorf("the configuration that did not change: %v, then %v", s, r)
	}
	if kinds[0] != "start" || kinds[len(kinds)-1] != "stop" || strings.Count(strings.Join(kinds, " "), "stop start") != 1 {
		t.Errorf("kinds %v", kinds)
	}
	text, err := os.ReadFile(b.cfg.Audit.File)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"secret", "Who are you", testmodel.Answer, answer.Text} {
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("%q is in the file", secret)
		}
	}
	report, err := audit.Verify(ctx, []audit.File{{Name: "f", ReaderAt: bytes.NewReader(text), Size: int64(len(text))}}, nil)
	if err != nil || !report.OK || report.Last.Hash.String() != last || report.Starts != 2 || report.Unclean != 0 {
		t.Errorf("%+v, %v", report, err)
	}
	// The seed that the box drew gives the answer again.
	b.restart(t) // it has stopped: what its end left for who waits for it is taken
	b.ready(t, "m")
	o := one["options"].(map[string]any)
	var seed uint64
	if _, err := fmt.Sscan(o["seed"].(string), &seed); err != nil {
		t.Fatal(err)
	}
	r.ID, r.Seed = "again", &seed
	until(t, "the broker is there", func() bool {
		conn, err := net.Dial("tcp", b.cfg.MQTT.Embedded.Listen)
		return err == nil && conn.Close() == nil
	})
	c = b.client(t, "anna")
	again, err := c.Send(ctx, r, nil)
	if err != nil || hex256(again.Text) != one["answer_sha256"] {
		t.Errorf("with the seed of the record: %q, %v, was %q", again.Text, err, answer.Text)
	}
}

// A file that cannot be written: requests go on, or, where a record is required, are
// refused before they run, until it can be.
func TestAuditThatCannotBeWritten(t *testing.T) {
	for _, required := range []bool{false, true} {
		t.Run(fmt.Sprint("required ", required), func(t *testing.T) {
			b := auditedBox(t, func(c *Config) {
				c.Audit.Required = required
				if err := errors.Join(os.Mkdir(filepath.Dir(c.Audit.File), 0o750), syscall.Mkfifo(c.Audit.File, 0o600)); err != nil {
					t.Fatal(err)
				}
			})
			b.drop(t, "m.vqf", tinyModel(t, nil))
			b.ready(t, "m")
			ctx, cancel := context.WithTimeout(context.Background(), waitFor)
			defer cancel()
			c := b.client(t, "anna")
			_, err := c.Send(ctx, request("hello", 4), nil)
			var refused *control.Error
			if required && (!errors.As(err, &refused) || refused.Code != control.AuditUnavailable || refused.RetryAfter == 0) || !required && err != nil {
				t.Fatalf("an answer without a record: %v", err)
			}
			question := `{"model":"m","max_tokens":4,"messages":[{"role":"user","content":"hello"}]}`
			if code, body := b.ask(t, false, "POST", "/v1/chat/completions", strings.NewReader(question)); (code == 503 && bytes.Contains(body, []byte("audit_unavailable"))) != required {
				t.Errorf("over HTTP: %d %s", code, body)
			}
			if _, page := b.ask(t, false, "GET", "/metrics", nil); !bytes.Contains(page, []byte("windhover_audit_writable 0")) {
				t.Error("nothing at /metrics says so")
			}
			if err := os.Remove(b.cfg.Audit.File); err != nil {
				t.Fatal(err)
			}
			until(t, "the file is written", func() bool {
				doc, err := LocalStatus(ctx, b.cfg)
				if err != nil {
					t.Fatal(err)
				}
				return doc.Stats.AuditSeq > 0
			})
			if _, err := c.Send(ctx, request("hello", 4), nil); err != nil {
				t.Error(err)
			}
			b.shutdown(t)
			lines, _ := auditLines(t, b.cfg.Audit.File)
			if lines[len(lines)-1]["kind"] != "stop" || lines[len(lines)-2]["code"] != "ok" {
				t.Errorf("%v", lines)
			}
			if fi, err := os.Stat(b.cfg.Audit.File); err != nil || fi.Mode() != 0o640 {
				t.Errorf("%v, %v", fi.Mode(), err)
			}
		})
	}
}

func TestAuditConfig(t *testing.T) {
	for text, want := range map[string]string{
		"[audit]\nmax_size = \"1K\"":       "audit.max_size",
		"[audit]\nmax_size = \"much\"":     "audit.max_size",
		"[audit]\nkeep = -1":               "audit.keep",
		"[audit]\nsync = \"never\"":        "audit.sync",
		"[audit]\nrequired = true":         "audit.required",
		"[audit]\nfile = \"a\"\nsync=true": "audit.sync",
	} {
		file := filepath.Join(t.TempDir(), "config.toml")
		write(t, file, text)
		if _, err := LoadConfig(file, true, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	file := filepath.Join(t.TempDir(), "config.toml")
	write(t, file, "[audit]\nfile = \"audit.jsonl\"")
	cfg, err := LoadConfig(file, true, nil)
	if err != nil || !filepath.IsAbs(cfg.Audit.File) {
		t.Errorf("%q, %v", cfg.Audit.File, err)
	}
}
