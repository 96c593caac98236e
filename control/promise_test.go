// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestEveryPromiseHasATest holds the numbers of docs/PROTOCOL.md and docs/HTTP.md against
// the names of tests: each stands there once, and some test has it in its name.
func TestEveryPromiseHasATest(t *testing.T) {
	var doc []byte
	for _, name := range []string{"../docs/PROTOCOL.md", "../docs/HTTP.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		doc = append(doc, text...)
	}
	promised := map[int]int{}
	for _, m := range regexp.MustCompile(`\(P([0-9]+)\)`).FindAllStringSubmatch(string(doc), -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		if promised[n]++; promised[n] > 1 {
			t.Errorf("P%d stands twice in docs/PROTOCOL.md or docs/HTTP.md", n)
		}
	}
	if len(promised) < 130 {
		t.Errorf("%d promises: the numbers are not where they should be", len(promised))
	}
	tested := map[int]string{}
	names := regexp.MustCompile(`(?m)^func (Test\w*?)((?:_P[0-9]+)+)\(`)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range names.FindAllStringSubmatch(string(src), -1) {
			for _, text := range strings.Split(m[2], "_P")[1:] {
				n, err := strconv.Atoi(text)
				if err != nil {
					return err
				}
				tested[n] = m[1]
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range slices.Sorted(maps.Keys(promised)) {
		if tested[n] == "" {
			t.Errorf("no test has P%d in its name", n)
		}
	}
	for n, name := range tested {
		if promised[n] == 0 {
			t.Errorf("%s is for P%d, which neither document promises", name, n)
		}
	}
}

// TestRepliesGoWhereTheyMust_P2 asks in ways that try to choose where the answer goes.
func TestRepliesGoWhereTheyMust_P2(t *testing.T) {
	g := newRig(t, &fake{}, nil)
	for _, payload := range []string{
		`{"id":"a","prompt":"x","reply_to":"windhover/v1/other/cmd/verify/me/j","response_topic":"x"}`,
		`{"id":"../../cmd","prompt":"x"}`, `{"id":"a/b","prompt":"x"}`, `{"id":"#","prompt":"x"}`, `{"prompt":"x"}`,
	} {
		g.ask("me", OpGenerate, payload)
	}
	g.await("the answers", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		ends := 0
		for _, m := range g.sent {
			if r, err := DecodeReply(m.payload); err == nil && r.Terminal() {
				ends++
			}
		}
		return ends == 5
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.sent {
		if id, ok := strings.CutPrefix(m.topic, "windhover/v1/edge1/res/me/"); !ok || strings.ContainsAny(id, "/+#") || m.retain {
			t.Errorf("something went to %s", m.topic)
		}
	}
}

// TestQoSOfReplies_P31: what frames an answer is never less sure than what is in it.
func TestQoSOfReplies_P31(t *testing.T) {
	g := newRig(t, &fake{}, nil)
	g.ask("me", OpGenerate, `{"id":"zero","prompt":"a b c","stream_qos":0}`)
	g.ask("me", OpGenerate, `{"id":"one","prompt":"a b c"}`)
	for id, want := range map[string]byte{"zero": 0, "one": 1} {
		g.end("me", id)
		seen := map[string]bool{}
		for _, m := range g.messages(g.topics.Reply("me", id)) {
			r, err := DecodeReply(m.payload)
			if err != nil {
				t.Fatal(err)
			}
			seen[r.Type] = true
			due := want
			if r.Type == TypeAccepted || r.Terminal() {
				due = 1
			}
			if m.qos != due {
				t.Errorf("%s of %s has QoS %d, want %d", r.Type, id, m.qos, due)
			}
		}
		if !seen[TypeDelta] || !seen[TypeAccepted] || !seen[TypeDone] {
			t.Errorf("%s: saw %v", id, seen)
		}
	}
}

// TestCommandsWaitRequestsDoNot_P32 publishes both while the device is away.
func TestCommandsWaitRequestsDoNot_P32(t *testing.T) {
	eachBroker(t, func(t *testing.T, b testBroker) {
		ep := quick(b.url())
		dir := t.TempDir()
		s := newDevice(t, &fake{}, ep, func(c *Config) { c.StateDir = dir })
		eventually(t, "the device", func() bool { c := s.Counters(); return c.Connected["control"] && c.Connected["data"] })
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := listen(t, ep, "windhover/v1/edge1/job/me/j", "windhover/v1/edge1/res/me/#")
		l.publish("windhover/v1/edge1/req/me/generate", false, `{"id":"late","prompt":"x"}`)
		l.publish("windhover/v1/edge1/cmd/verify/me/j", false, `{"model":"tiny"}`)
		var mu sync.Mutex
		var asked []string
		var jobs atomic.Int32
		newDevice(t, &fake{
			generate: func(ctx context.Context, r *Request, emit func(Event) error) (*Result, error) {
				mu.Lock()
				asked = append(asked, r.ID)
				mu.Unlock()
				return echo(ctx, r, emit)
			},
			runJob: func(context.Context, Job, func(JobProgress)) (any, error) { jobs.Add(1); return nil, nil },
		}, ep, func(c *Config) { c.StateDir = dir })
		eventually(t, "the job", func() bool { return jobs.Load() == 1 })
		newCaller(t, ep, "you")
		l.publish("windhover/v1/edge1/req/me/generate", false, `{"id":"now","prompt":"x"}`)
		eventually(t, "an answer", func() bool { return len(l.on("windhover/v1/edge1/res/me/now")) > 2 })
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(asked, []string{"now"}) {
			t.Errorf("asked %v", asked)
		}
	})
}

// TestDocumentFields_P37 holds the table of documents against the structs.
func TestDocumentFields_P37(t *testing.T) {
	doc, err := os.ReadFile("../docs/PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(doc), "## State documents")
	if !ok {
		t.Fatal("docs/PROTOCOL.md has no state documents")
	}
	named := regexp.MustCompile("`([a-z_0-9]+)(?:\\[\\])?(?:\\{[^`]*\\})?`")
	for row, v := range map[string]any{"status": Status{}, "info": Info{}, "model/<name>": Model{}, "stats": Stats{}, "event": Occurrence{}} {
		m := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(row) + "` \\| (`.*) \\|$").FindStringSubmatch(rest)
		if m == nil {
			t.Errorf("no row for %s", row)
			continue
		}
		got := map[string]bool{}
		for _, f := range named.FindAllStringSubmatch(m[1], -1) {
			got[f[1]] = true
		}
		typ := reflect.TypeOf(v)
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if !got[name] && name != "v" {
				t.Errorf("docs/PROTOCOL.md: %s has no field %s", row, name)
			}
			delete(got, name)
		}
		for name := range got {
			t.Errorf("docs/PROTOCOL.md: %s has a field %s that does not exist", row, name)
		}
	}
}
