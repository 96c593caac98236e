// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"windhover/engine/jinja"
)

// hassRig is a device that Home Assistant is to find.
func hassRig(t *testing.T, dir string, on bool) *rig {
	return newRig(t, &fake{models: func() []Model {
		return []Model{{Name: "tiny", Version: "1", State: "ready", Default: true}, {Name: "other", Version: "7"}}
	}}, func(c *Config) { c.StateDir, c.HomeAssistant = dir, on })
}

func (g *rig) latest(topic string, into any) bool {
	ms := g.messages(topic)
	if len(ms) == 0 || len(ms[len(ms)-1].payload) == 0 {
		return false
	}
	if err := json.Unmarshal(ms[len(ms)-1].payload, into); err != nil {
		g.t.Fatal(err)
	}
	return ms[len(ms)-1].retain
}

// TestHomeAssistantExample plays the automation of docs/PROTOCOL.md: what it publishes
// is answered on what it listens to, and what it speaks is the answer.
func TestHomeAssistantExample(t *testing.T) {
	doc, err := os.ReadFile("../docs/PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), "## Home Assistant")
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	yaml, _, ok := strings.Cut(rest, "```")
	topics := regexp.MustCompile(`(?m)^ +topic: (\S+)$`).FindAllStringSubmatch(yaml, -1)
	test := regexp.MustCompile(`(?m)value_template: "(.*)"\n +payload: (.*)$`).FindStringSubmatch(yaml)
	speaks := regexp.MustCompile(`(?m)message: "\{\{ trigger\.payload_json\.(\w+) \}\}"$`).FindStringSubmatch(yaml)
	if !ok || len(topics) != 2 || test == nil || speaks == nil {
		t.Fatalf("the example is not what this test knows: %v %v %v", topics, test, speaks)
	}
	g := hassRig(t, t.TempDir(), true)
	g.request(inbound{topic: topics[0][1], payload: []byte("It is 12 degrees outside. Greet Anna.")})
	g.await("what is to be spoken", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, m := range g.sent {
			var v map[string]any
			if !strings.HasPrefix(m.topic, strings.TrimSuffix(topics[1][1], "+")) || json.Unmarshal(m.payload, &v) != nil {
				continue
			}
			if rendered(t, test[1], v) == test[2] {
				return v[speaks[1]] == "It is 12 degrees outside. Greet Anna."
			}
		}
		return false
	})
}

// TestHomeAssistantDiscovery_P61 holds the document against what Home Assistant asks of
// one (every component has a platform and an id of its own) and against the protocol:
// each topic in it is one that the device has.
func TestHomeAssistantDiscovery_P61(t *testing.T) {
	g := hassRig(t, t.TempDir(), true)
	g.resync()
	var doc struct {
		Device struct {
			Identifiers []string
			Name        string
		}
		Origin               struct{ Name string }
		AvailabilityTopic    string `json:"availability_topic"`
		AvailabilityTemplate string `json:"availability_template"`
		Components           map[string]map[string]any
	}
	g.await("the document", func() bool { return g.latest("homeassistant/device/windhover_edge1/config", &doc) })
	if doc.Device.Name != "edge1" || len(doc.Device.Identifiers) != 1 || doc.Origin.Name == "" || doc.AvailabilityTopic != g.topics.Status() {
		t.Errorf("document %+v", doc)
	}
	platforms, ids := map[string]int{}, map[string]bool{}
	for key, c := range doc.Components {
		platform, _ := c["platform"].(string)
		platforms[platform]++
		id, _ := c["unique_id"].(string)
		if platform == "" || id == "" || ids[id] {
			t.Errorf("%s: platform %q, id %q", key, platform, id)
		}
		ids[id] = true
		if c["default_entity_id"] != platform+".windhover_edge1_"+key || c["object_id"] != nil { // which 2026.4 no longer reads
			t.Errorf("%s: entity %v", key, c["default_entity_id"])
		}
		for _, k := range []string{"state_topic", "command_topic"} {
			if topic, ok := c[k].(string); ok && !strings.HasPrefix(topic, "windhover/v1/edge1/") {
				t.Errorf("%s: %s %q", key, k, topic)
			}
		}
		if topic, ok := c["command_topic"].(string); ok {
			if _, ok := g.topics.parseRoute(topic); !ok {
				t.Errorf("%s: the device does not take %q", key, topic)
			}
		}
	}
	if platforms["update"] != 1 || platforms["text"] != 1 || platforms["button"] != 1 || platforms["sensor"] < 5 {
		t.Errorf("platforms %v", platforms)
	}
	// A button's press and a question are what they claim to be.
	press := doc.Components["verify"]
	if err := g.SetPolicy(Policy{Anonymous: []string{"verify"}}); err != nil {
		t.Fatal(err)
	}
	g.command(inbound{topic: press["command_topic"].(string), payload: []byte(press["payload_press"].(string)), ack: func() {}})
	g.await("a job", func() bool { js := g.Jobs(); return len(js) == 1 && js[0].Status == JobSucceeded })
	g.request(inbound{topic: doc.Components["question"]["command_topic"].(string), payload: []byte("how warm is it")})
	g.await("an answer", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, m := range g.sent {
			if strings.HasPrefix(m.topic, g.topics.Reply(hassClient, "")) && strings.Contains(string(m.payload), `"t":"done"`) {
				return strings.Contains(string(m.payload), `"text":"how warm is it"`)
			}
		}
		return false
	})
	for state, want := range map[string]string{StateOnline: "online", StateDegraded: "online", StateOffline: "offline", StateStopping: "offline", StateStarting: "offline"} {
		if got := rendered(t, doc.AvailabilityTemplate, map[string]any{"state": state}); got != want {
			t.Errorf("%s is %s", state, got)
		}
	}
	answer := doc.Components["answer"]["value_template"].(string)
	if got := rendered(t, answer, map[string]any{"t": "done", "text": strings.Repeat("é", 300)}); got != strings.Repeat("é", 250) {
		t.Errorf("a long answer is %q", got)
	}
	for _, v := range []map[string]any{{"t": "delta", "text": "x"}, {"t": "done"}} {
		if got := rendered(t, answer, v); got != "before" {
			t.Errorf("%v changes the answer to %q", v, got)
		}
	}
	stats := map[string]any{"decode_tok_s": 9.87, "queue": 2, "active": 1, "temp_c": 41.25, "mem_available": 5, "disk_free": 6}
	for key, want := range map[string]string{"speed": "9.9", "queue": "3", "memory": "5", "disk": "6"} {
		if got := rendered(t, doc.Components[key]["value_template"].(string), stats); got != want {
			t.Errorf("%s shows %q, want %q", key, got, want)
		}
	}
}

// rendered is what a template of Home Assistant gives for a message.
func rendered(t *testing.T, template string, message map[string]any) string {
	t.Helper()
	tmpl, err := jinja.Parse(template)
	if err != nil {
		t.Fatal(err)
	}
	vars := new(jinja.Dict)
	for name, v := range map[string]any{"value_json": message, "this": map[string]any{"state": "before"}} {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		value, err := jinja.JSON(raw)
		if err != nil {
			t.Fatal(err)
		}
		vars.Set(name, value)
	}
	out, err := tmpl.Render(vars, jinja.LimitsFor(1000), nil)
	if err != nil {
		t.Fatalf("%s: %v", template, err)
	}
	return out
}

// TestHomeAssistantUpdate_P62 follows the update entity over an update of the default model.
func TestHomeAssistantUpdate_P62(t *testing.T) {
	g := hassRig(t, t.TempDir(), true)
	g.ModelsChanged()
	show := func() string {
		u := g.hassUpdate(g.backend.Models()[0])
		p, err := encode(u)
		if err != nil {
			t.Fatal(err)
		}
		return string(p)
	}
	if got, want := show(), `{"installed_version":"1","latest_version":"1","title":"tiny","in_progress":false,"update_percentage":null}`; got != want {
		t.Errorf("got %s", got)
	}
	for _, c := range []struct {
		what Reported
		want string
	}{
		{Reported{Status: DesiredHeld, Models: []ReportedModel{{Name: "tiny", Version: "2", Status: JobQueued}}},
			`{"installed_version":"1","latest_version":"2","title":"tiny","in_progress":false,"update_percentage":null}`},
		{Reported{Status: DesiredRunning, Models: []ReportedModel{{Name: "tiny", Version: "2", Status: JobRunning, Phase: "downloading", Progress: &JobFraction{Done: 1, Total: 4, Pct: 25}}}},
			`{"installed_version":"1","latest_version":"2","title":"tiny","in_progress":true,"update_percentage":25,"release_summary":"downloading"}`},
		{Reported{Status: DesiredRunning, Models: []ReportedModel{{Name: "tiny", Version: "2", Status: JobRunning, Phase: "observing"}}},
			`{"installed_version":"1","latest_version":"2","title":"tiny","in_progress":true,"update_percentage":null,"release_summary":"observing"}`},
		{Reported{Status: DesiredFailed, Models: []ReportedModel{{Name: "tiny", Version: "2", Status: JobFailed}}},
			`{"installed_version":"1","latest_version":"1","title":"tiny","in_progress":false,"update_percentage":null}`},
		{Reported{Status: DesiredRunning, Models: []ReportedModel{{Name: "other", Version: "8", Status: JobRunning}}},
			`{"installed_version":"1","latest_version":"1","title":"tiny","in_progress":false,"update_percentage":null}`},
	} {
		g.Report(c.what)
		if got := show(); got != c.want {
			t.Errorf("%+v shows\n%s, want\n%s", c.what, got, c.want)
		}
	}
	var last hassUpdate
	g.await("the document", func() bool { return g.latest("windhover/v1/edge1/ha/update", &last) && last.Title == "tiny" })
}

// TestHomeAssistantIsTakenBack_P63 turns discovery off: the documents are cleared.
func TestHomeAssistantIsTakenBack_P63(t *testing.T) {
	dir := t.TempDir()
	g := hassRig(t, dir, true)
	g.resync()
	var doc map[string]any
	g.await("the document", func() bool { return g.latest(g.topics.Discovery(), &doc) })
	if err := g.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	g = hassRig(t, dir, false)
	g.resync()
	for _, topic := range []string{g.topics.Discovery(), g.topics.Update()} {
		g.await("an empty "+topic, func() bool {
			ms := g.messages(topic)
			return len(ms) > 0 && len(ms[len(ms)-1].payload) == 0
		})
	}
	g = hassRig(t, t.TempDir(), false)
	g.resync()
	g.await("the status", func() bool { return len(g.messages(g.topics.Status())) > 0 })
	if len(g.messages(g.topics.Discovery())) != 0 {
		t.Error("a device that nobody is to find says something")
	}
}

// Discovery is turned on and off while the device serves, and so is what clients may do.
func TestHomeAssistantWhileServing_P250(t *testing.T) {
	g := hassRig(t, t.TempDir(), false)
	g.resync()
	var doc struct{ Components map[string]any }
	found := func() bool { return g.latest(g.topics.Discovery(), &doc) }
	g.SetHomeAssistant(true)
	g.await("the document", found)
	g.SetHomeAssistant(false)
	g.await("it is taken back", func() bool { return !found() })
	g.SetHomeAssistant(true)
	g.await("the document again", found)
	if err := g.SetPolicy(Policy{Anonymous: []string{"["}}); err == nil {
		t.Error("a malformed pattern is taken")
	}
}
