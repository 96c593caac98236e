// SPDX-License-Identifier: Apache-2.0

package control

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPolicy_P49(t *testing.T) {
	rules := []Rule{
		{"ops*", []string{"model_*", "convert", "verify", "gc", "diag"}},
		{"conv?", []string{"convert", "verify"}},
		{"root", []string{"*"}},
	}
	for _, c := range []struct {
		client, typ         string
		enforced, anonymous bool // allowed when the broker enforces, and when not
	}{
		{"ops", "model_install", true, false},
		{"ops-2", "convert", true, true},
		{"ops", "config_reload", false, false},
		{"conv1", "convert", true, true},
		{"conv1", "model_install", false, false},
		{"conv", "convert", false, true},
		{"app1", "verify", false, true},
		{"app1", "job_cancel", false, false},
		{"root", "job_cancel", true, false},
		{"", "convert", false, true},
	} {
		p := Policy{Rules: rules, EnforcesACL: true, Anonymous: []string{"convert", "verify"}}
		if got := p.Allows(c.client, c.typ); got != c.enforced {
			t.Errorf("enforced: %s %s: %v, want %v", c.client, c.typ, got, c.enforced)
		}
		p.EnforcesACL = false
		if got := p.Allows(c.client, c.typ); got != c.anonymous {
			t.Errorf("anonymous: %s %s: %v, want %v", c.client, c.typ, got, c.anonymous)
		}
	}
	if (Policy{}).Allows("ops", "convert") {
		t.Error("the empty policy allows a job")
	}
	for _, p := range []Policy{{Rules: []Rule{{"[", nil}}}, {Rules: []Rule{{"a", []string{""}}}}, {Anonymous: []string{"[a"}}} {
		if p.Check() == nil {
			t.Errorf("%+v passes", p)
		}
	}
}

func TestTopics_P1(t *testing.T) {
	tp := Topics{"edge1"}
	for _, c := range []struct {
		topic string
		want  route
		ok    bool
	}{
		{"windhover/v1/edge1/req/me/chat", route{"req", "chat", "me", "", ""}, true},
		{"windhover/v1/edge1/cmd/convert/me/j:1", route{"cmd", "convert", "me", "j:1", ""}, true},
		{"windhover/v1/edge2/req/me/chat", route{}, false},
		{"windhover/v1/edge1/req/me", route{}, false},
		{"windhover/v1/edge1/req/m:e/chat", route{}, false},
		{"windhover/v1/edge1/req//chat", route{}, false},
		{"windhover/v1/edge1/cmd/convert/me/_", route{"cmd", "convert", "me", "_", ""}, true},
		{"windhover/v1/edge1/cmd/convert/me/a/b", route{}, false},
		{"windhover/v1/edge1/res/me/x", route{}, false},
		{"", route{}, false},
	} {
		if got, ok := tp.parseRoute(c.topic); got != c.want || ok != c.ok {
			t.Errorf("%q gives %+v %v", c.topic, got, ok)
		}
	}
	long := Topics{strings.Repeat("a", maxDevice)}
	id := strings.Repeat("b", maxIdent)
	for _, topic := range []string{long.Command("config_reload", id, id), long.Job(id, id), long.Reply(id, id)} {
		if len(topic) >= 256 || strings.Count(topic, "/") > 6 {
			t.Errorf("%s is too long", topic)
		}
	}
}

func TestNames_P1(t *testing.T) {
	for s, want := range map[string]string{
		"Edge1.local": "edge1-local", "RK3588_box": "rk3588-box", "--": "windhover", "": "windhover",
		strings.Repeat("x", 62) + "-yy": strings.Repeat("x", 62), "höhe": "h--he",
	} {
		if got := DeviceName(s); got != want || !ValidDevice(got) {
			t.Errorf("DeviceName(%q) = %q, want %q", s, got, want)
		}
	}
	for s, ok := range map[string]bool{"a": true, "0-a": true, "-a": false, "_group": false, "A": false, "": false,
		strings.Repeat("a", 63): true, strings.Repeat("a", 64): false} {
		if ValidDevice(s) != ok {
			t.Errorf("ValidDevice(%q) = %v", s, !ok)
		}
	}
	if ValidClient("a:b") || !ValidClient("A.b_c-9") || ValidID("a b") || !ValidID("a:b") || ValidModel("a/b") || !ValidModel("q@1.0") {
		t.Error("a name is judged wrongly")
	}
}

func TestEndpoint_P50(t *testing.T) {
	for _, c := range []struct {
		e    Endpoint
		fail string
		host string
	}{
		{Endpoint{URL: "mqtt://127.0.0.1"}, "", "127.0.0.1:1883"},
		{Endpoint{URL: "mqtt://localhost:99"}, "", "localhost:99"},
		{Endpoint{URL: "ws://[::1]/mqtt"}, "", "[::1]:80"},
		{Endpoint{URL: "mqtts://broker.lan"}, "", "broker.lan:8883"},
		{Endpoint{URL: "wss://broker.lan/mqtt"}, "", "broker.lan:443"},
		{Endpoint{URL: "mqtt://broker.lan", AllowPlaintext: true}, "", "broker.lan:1883"},
		{Endpoint{URL: "mqtt://broker.lan"}, "mqtt.allow_plaintext", ""},
		{Endpoint{URL: "ws://10.0.0.1"}, "mqtt.allow_plaintext", ""},
		{Endpoint{URL: "mqtt://0.0.0.0"}, "mqtt.allow_plaintext", ""},
		{Endpoint{URL: "mqtt://localhost.evil.org"}, "mqtt.allow_plaintext", ""},
		{Endpoint{URL: "http://127.0.0.1"}, "scheme", ""},
		{Endpoint{URL: "127.0.0.1:1883"}, "mqtt.url", ""},
		{Endpoint{URL: ""}, "mqtt.url", ""},
		{Endpoint{URL: "mqtt://u:secret@127.0.0.1"}, "mqtt.username", ""},
		{Endpoint{URL: "mqtts://b", CertFile: "c"}, "mqtt.key_file", ""},
	} {
		u, err := c.e.parse()
		if failsAs(t, err, c.fail) && u.Host != c.host {
			t.Errorf("%s goes to %q, want %q", c.e.URL, u.Host, c.host)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error tells the password: %v", err)
		}
	}
}

func TestCredentialsAreReadAgain_P52(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pw")
	e := Endpoint{Username: "edge1", PasswordFile: file}
	if _, _, err := e.credentials(); err == nil || !strings.Contains(err.Error(), "mqtt.password_file") {
		t.Errorf("missing file: %v", err)
	}
	for _, pw := range []string{"one\n", "two\r\nrest", "three"} {
		if err := os.WriteFile(file, []byte(pw), 0o600); err != nil {
			t.Fatal(err)
		}
		user, got, err := e.credentials()
		if want := strings.FieldsFunc(pw, func(r rune) bool { return r == '\r' || r == '\n' })[0]; err != nil || user != "edge1" || got != want {
			t.Errorf("got %q %q %v, want %q", user, got, err, want)
		}
	}
}

func mustURL(t *testing.T) *url.URL {
	t.Helper()
	u, err := url.Parse("mqtt://127.0.0.1:1883")
	if err != nil {
		t.Fatal(err)
	}
	return u
}
