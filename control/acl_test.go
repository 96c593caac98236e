// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// aclOf returns the lines of an access list without comments.
func aclOf(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
	}
	return lines
}

// shippedACL is the access list of the package, which is that of docs/PROTOCOL.md.
func shippedACL(t *testing.T) string {
	t.Helper()
	doc, err := os.ReadFile("../docs/PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := os.ReadFile("../packaging/examples/mosquitto.acl")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(doc), "```acl\n")
	said, _, end := strings.Cut(rest, "```")
	if !ok || !end {
		t.Fatal("docs/PROTOCOL.md has no acl block")
	}
	if a, b := aclOf(said), aclOf(string(shipped)); !slices.Equal(a, b) {
		t.Fatalf("docs/PROTOCOL.md and packaging/examples/mosquitto.acl differ:\n%s\n\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
	return string(shipped)
}

// aclBroker is a mosquitto with the shipped list and these users, whose passwords are
// their names, and a user root who may do everything.
func aclBroker(t *testing.T, users ...string) func(user string) Endpoint {
	t.Helper()
	dir := t.TempDir()
	var lines strings.Builder
	for _, u := range append(users, "root") {
		fmt.Fprintf(&lines, "%s:pw-%s\n", u, u)
	}
	for name, text := range map[string]string{"passwd": lines.String(), "acl": shippedACL(t) + "user root\ntopic readwrite #\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := exec.Command(tool(t, "mosquitto_passwd"), "-U", filepath.Join(dir, "passwd")).CombinedOutput(); err != nil {
		t.Fatalf("mosquitto_passwd: %v %s", err, text)
	}
	m := newMosquitto(t, "allow_anonymous false", "password_file "+dir+"/passwd", "acl_file "+dir+"/acl")
	if _, err := DialClient(t.Context(), ClientConfig{Endpoint: quick(m.url()), Device: "edge1"}); err == nil {
		t.Error("a connection without a user is taken")
	}
	return func(user string) Endpoint {
		ep := quick(m.url())
		ep.Username, ep.Password = user, "pw-"+user
		return ep
	}
}

// aclRights are the topics of one device, its group and Home Assistant: who may write
// them and who may read them, of all users there are.
var aclRights = []struct{ topic, writes, reads string }{
	{"windhover/v1/edge1/status", "edge1", "edge1 edge2 app1 app2 ops fleet monitor homeassistant"},
	{"windhover/v1/edge1/info", "edge1", "edge1 edge2 app1 app2 ops fleet monitor homeassistant"},
	{"windhover/v1/edge1/model/tiny", "edge1", "edge1 edge2 app1 app2 ops fleet monitor homeassistant"},
	{"windhover/v1/edge1/stats", "edge1", "edge1 ops fleet monitor homeassistant"},
	{"windhover/v1/edge1/event", "edge1", "edge1 ops fleet monitor"},
	{"windhover/v1/edge1/reported", "edge1", "edge1 ops fleet"},
	{"windhover/v1/edge1/ha/update", "edge1", "edge1 ops fleet homeassistant"},
	{"windhover/v1/edge1/res/app1/r", "edge1", "edge1 app1 ops fleet"},
	{"windhover/v1/edge1/job/app1/j", "edge1", "edge1 app1 ops fleet monitor"},
	{"windhover/v1/edge1/req/app1/chat", "edge1 app1", "edge1 ops fleet"},
	{"windhover/v1/edge1/req/app2/chat", "edge1 app2", "edge1 ops fleet"},
	{"windhover/v1/edge1/req/ops/chat", "edge1 ops", "edge1 ops fleet"},
	{"windhover/v1/edge1/req/monitor/chat", "edge1", "edge1 ops fleet"},
	{"windhover/v1/edge1/req/homeassistant/prompt", "edge1 homeassistant", "edge1 ops fleet"},
	{"windhover/v1/edge1/cmd/convert/app1/j", "edge1 app1", "edge1 ops fleet"},
	{"windhover/v1/edge1/cmd/verify/app1/j", "edge1 app1", "edge1 ops fleet"},
	{"windhover/v1/edge1/cmd/model_install/app1/j", "edge1", "edge1 ops fleet"},
	{"windhover/v1/edge1/cmd/convert/app2/j", "edge1", "edge1 ops fleet"},
	{"windhover/v1/edge1/cmd/convert/ops/j", "edge1 ops", "edge1 ops fleet"},
	{"windhover/v1/edge1/cmd/model_install/ops/j", "edge1 ops", "edge1 ops fleet"},
	{"windhover/v1/edge1/cmd/verify/homeassistant/_", "edge1 homeassistant", "edge1 ops fleet"},
	{"windhover/v1/edge1/cmd/verify/fleet/j", "edge1", "edge1 ops fleet"},
	{"windhover/v1/edge1/desired", "edge1 fleet", "edge1 ops fleet"},
	{"windhover/v1/_group/kitchen/desired", "fleet", "edge1 ops fleet"},
	{"windhover/v1/_group/cellar/desired", "fleet", "ops fleet"},
	{"windhover/v1/_group/kitchen/req/app1/chat", "app1", "edge1 ops fleet"},
	{"windhover/v1/_group/kitchen/req/monitor/chat", "", "edge1 ops fleet"},
	{"windhover/v1/_group/cellar/req/app2/chat", "app2", "ops fleet"},
	{"homeassistant/device/windhover_edge1/config", "edge1 homeassistant", "homeassistant"},
	{"homeassistant/device/windhover_edge2/config", "homeassistant", "homeassistant"},
	{"homeassistant/status", "homeassistant", "homeassistant"},
}

// TestMosquittoACL_P48 holds the table of roles, in every cell, against a real broker with
// the access list that the package ships.
func TestMosquittoACL_P48(t *testing.T) {
	users := strings.Fields("edge1 edge2 app1 app2 ops fleet monitor homeassistant")
	as := aclBroker(t, users...)
	root := listen(t, as("root"), "windhover/#", "homeassistant/#")
	clients := map[string]*listener{}
	for _, u := range users {
		clients[u] = listen(t, as(u), "windhover/#", "homeassistant/#") // granted to all, and delivered by topic
	}
	marks := 0
	// passed waits until the broker has handed on what was acknowledged to others.
	passed := func(l *listener, topic string) {
		t.Helper()
		marks++
		mark := fmt.Sprint("mark", marks)
		root.publish(topic, false, mark)
		eventually(t, "the mark", func() bool { return holds(l.on(topic), mark) })
	}
	for _, r := range aclRights {
		may := strings.Fields(r.writes)
		for _, u := range users {
			clients[u].publish(r.topic, false, "from "+u)
		}
		passed(root, "windhover/mark")
		for _, u := range users {
			if got := holds(root.on(r.topic), "from "+u); got != slices.Contains(may, u) {
				t.Errorf("%s publishes %s: %v", u, r.topic, got)
			}
		}
		root.publish(r.topic, false, "from root")
	}
	for _, u := range users {
		passed(clients[u], "windhover/v1/"+map[bool]string{true: u, false: "edge1"}[u != "monitor"]+"/status")
		for _, r := range aclRights {
			if got := holds(clients[u].on(r.topic), "from root"); got != slices.Contains(strings.Fields(r.reads), u) {
				t.Errorf("%s reads %s: %v", u, r.topic, got)
			}
		}
	}
}

// TestDeviceUnderACL has a device do all it does under the access list: documents, those
// of Home Assistant too, requests to it and to its group, commands, and what a fleet
// wants of it and its group.
func TestDeviceUnderACL(t *testing.T) {
	as := aclBroker(t, "edge1", "app1", "ops", "fleet")
	var jobs, wanted atomic.Int32
	s := newDevice(t, &fake{runJob: func(context.Context, Job, func(JobProgress)) (any, error) { jobs.Add(1); return nil, nil }},
		as("edge1"), func(c *Config) {
			c.Policy = Policy{EnforcesACL: true, Rules: []Rule{{"app1", []string{"convert"}}, {"ops*", []string{"*"}}}}
			c.Groups, c.Share, c.HomeAssistant = []string{"kitchen"}, true, true
			c.Desired = func(target string, document []byte) {
				if target+" "+string(document) == "device/edge1 {}" || target+" "+string(document) == "group/kitchen {}" {
					wanted.Add(1)
				}
			}
		})
	root, app, ops, fleet := listen(t, as("root"), "#"), listen(t, as("app1"), "windhover/v1/+/res/app1/#"), listen(t, as("ops")), listen(t, as("fleet"))
	eventually(t, "both links", func() bool { c := s.Counters(); return c.Connected["control"] && c.Connected["data"] })
	for _, topic := range []string{s.topics.Status(), s.topics.Info(), s.topics.Model("tiny"), s.topics.Discovery()} {
		eventually(t, topic, func() bool { return len(root.on(topic)) > 0 })
	}
	app.publish("windhover/v1/edge1/req/app1/generate", false, `{"id":"r1","prompt":"x"}`)
	app.publish(GroupRequest("kitchen", "app1", OpGenerate), false, `{"id":"r2","prompt":"x"}`)
	app.publish("windhover/v1/edge1/cmd/convert/app1/j", false, `{}`)
	ops.publish("windhover/v1/edge1/cmd/verify/ops/j", false, `{}`)
	fleet.publish(s.topics.Desired(), true, "{}")
	fleet.publish(GroupDesired("kitchen"), true, "{}")
	for _, id := range []string{"r1", "r2"} {
		eventually(t, "the answer to "+id, func() bool { return len(app.on(s.topics.Reply("app1", id))) > 2 })
	}
	eventually(t, "two jobs", func() bool { return jobs.Load() == 2 })
	eventually(t, "two documents", func() bool { return wanted.Load() == 2 })
}

func holds(ms []mqtt.Message, payload string) bool {
	for _, m := range ms {
		if string(m.Payload()) == payload {
			return true
		}
	}
	return false
}
