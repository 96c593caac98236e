// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"golang.org/x/crypto/bcrypt"
)

func TestReadUsers(t *testing.T) {
	hash, err := HashPassword("pw")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, want, fail string }{
		{"# people\n\n app1:" + hash + "\nops:" + hash + ":operator\r\n", "[app1/app ops/operator]", ""},
		{"app1:$2y$05$" + hash[7:] + "\n", "[app1/app]", ""},
		{"", "", "holds no user"},
		{"app1:secret", "", ":1: user \"app1\": the password must be a bcrypt hash"},
		{"a:" + hash + "\na:" + hash, "", ":2: user \"a\" stands twice"},
		{"a:" + hash + ":king", "", "role \"king\""},
		{"a b:" + hash, "", "name"},
		{"a.*:" + hash, "", "name"},
		{":" + hash, "", "name"},
		{"a", "", "write name:bcrypt-hash"},
		{"a:b:c:d", "", "write name:bcrypt-hash"},
	} {
		path := filepath.Join(t.TempDir(), "users")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		users, err := ReadUsers(path)
		if c.fail != "" {
			if err == nil || !strings.Contains(err.Error(), c.fail) {
				t.Errorf("%q: %v, want %q", c.text, err, c.fail)
			}
			continue
		}
		var names []string
		for _, u := range users {
			names = append(names, u.Name+"/"+u.Role)
		}
		if got := fmt.Sprint(names); err != nil || got != c.want {
			t.Errorf("%q: %s %v, want %s", c.text, got, err, c.want)
		}
	}
}

// TestRoles_P53 is the table of rights: who may publish where, and who may read it.
func TestRoles_P53(t *testing.T) {
	cheap, err := bcrypt.GenerateFromPassword([]byte("pw"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	hash := string(cheap)
	users := filepath.Join(t.TempDir(), "users")
	text := ""
	for _, u := range []string{"app1:app", "app.2:app", "conv:converter", "ops:operator", "fleet:fleet", "mon:monitor"} {
		name, role, _ := strings.Cut(u, ":")
		text += name + ":" + hash + ":" + role + "\n"
	}
	if err := os.WriteFile(users, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b := start(t, Options{UsersFile: users, Device: "edge1"})
	if _, _, err := dial(t, b, "x", "", "", true); err == nil {
		t.Error("a connection without a user is taken")
	}
	if _, _, err := dial(t, b, "x", "app1", "wrong", true); err == nil {
		t.Error("a wrong password is taken")
	}
	device, password := b.Credentials()
	dev, in, err := dial(t, b, "edge1", device, password, true)
	if err != nil {
		t.Fatal(err)
	}
	must(t, dev.Subscribe("windhover/v1/edge1/#", 1, nil))

	const base = "windhover/v1/edge1/"
	clients := map[string]mqtt.Client{}
	for _, name := range []string{"app1", "app.2", "conv", "ops", "fleet", "mon"} {
		if clients[name], _, err = dial(t, b, "c-"+strings.ReplaceAll(name, ".", ""), name, "pw", true); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		who, topic string
		ok         bool
	}{
		{"app1", base + "req/app1/chat", true},
		{"app.2", base + "req/app.2/chat", true},
		{"app1", base + "req/app.2/chat", false},
		{"app1", base + "res/app1/x", false},
		{"app1", base + "status", false},
		{"app1", base + "cmd/convert/app1/j", false},
		{"app1", base + "desired", false},
		{"conv", base + "cmd/convert/conv/j", true},
		{"conv", base + "cmd/verify/conv/j", true},
		{"conv", base + "cmd/model_install/conv/j", false},
		{"conv", base + "cmd/convert/ops/j", false},
		{"ops", base + "cmd/model_install/ops/j", true},
		{"ops", base + "cmd/model_install/app1/j", false},
		{"ops", base + "desired", false},
		{"fleet", base + "desired", true},
		{"fleet", base + "req/fleet/chat", false},
		{"mon", base + "req/mon/chat", false},
	} {
		must(t, clients[c.who].Publish(c.topic, 1, false, c.who))
		must(t, dev.Publish(base+"event", 1, false, "mark")) // what came before it has come
		seen := false
		for g := next(t, in); g.payload != "mark"; g = next(t, in) {
			seen = seen || g.topic == c.topic
		}
		if seen != c.ok {
			t.Errorf("%s publishes %s: %v, want %v", c.who, c.topic, seen, c.ok)
		}
	}
	for _, c := range []struct {
		who, filter string
		ok          bool
	}{
		{"app1", "windhover/v1/+/res/app1/#", true},
		{"app1", base + "res/app1/#", true},
		{"app.2", base + "res/app.2/#", true},
		{"app1", base + "res/+/#", false},
		{"app1", base + "res/ops/#", false},
		{"app1", base + "job/app1/+", true},
		{"app1", base + "status", true},
		{"app1", base + "model/+", true},
		{"app1", base + "req/#", false},
		{"app1", "#", false},
		{"conv", base + "job/conv/+", true},
		{"ops", "windhover/v1/#", true},
		{"fleet", "windhover/v1/#", true},
		{"mon", base + "job/#", true},
		{"mon", base + "res/#", false},
	} {
		tok := clients[c.who].Subscribe(c.filter, 1, nil)
		tok.WaitTimeout(10 * time.Second)
		granted := tok.Error() == nil && tok.(*mqtt.SubscribeToken).Result()[c.filter] <= 2
		if granted != c.ok {
			t.Errorf("%s reads %s: %v, want %v", c.who, c.filter, granted, c.ok)
		}
	}
}
