// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"testing"
)

// Nobody learns by what was cached what another client has asked; those that are to
// share what they begin with do. What is answered is the same.
func TestClientsShareNoPrefixes_P210(t *testing.T) {
	b := startBox(t, func(c *Config) { c.Engine.SharePrefixes = []string{"team-*"} })
	b.drop(t, "m.vqf", tinyModel(t, nil))
	b.ready(t, "m")
	b.connected(t)
	ctx, cancel := context.WithTimeout(context.Background(), waitFor)
	defer cancel()
	secret := "my pin is 4711, keep it"
	text := ""
	for _, c := range []struct {
		client string
		finds  bool
	}{{"alice", false}, {"mallory", false}, {"alice2", false}, {"team-a", false}, {"team-b", true}, {"team", false}} {
		a, err := b.client(t, c.client).Send(ctx, request(secret, 8), nil)
		if err != nil {
			t.Fatal(err)
		}
		if text == "" {
			text = a.Text
		}
		if n := a.Done.Usage.Cached; (n > 0) != c.finds || a.Text != text {
			t.Errorf("%s: %d cached and %q, want some: %v, and %q", c.client, n, a.Text, c.finds, text)
		}
	}
}

func TestRealm(t *testing.T) {
	e := Engine{SharePrefixes: []string{"line-1*", "line-*"}}
	same := func(a, b string) bool { return e.realm(a) == e.realm(b) }
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"line-1", "line-12", true}, {"line-2", "line-3", true}, {"line-1", "line-2", false}, {"a", "b", false}, {"a", "a", true},
		{"a", "", false}, {"shared by line-*", "line-2", false}, {"client a", "a", false},
	} {
		if same(c.a, c.b) != c.want {
			t.Errorf("%q is of realm %q and %q of %q", c.a, e.realm(c.a), c.b, e.realm(c.b))
		}
	}
	e.SharePrefixes = []string{"*"}
	if !same("a", "b") || !same("a", "http:x") {
		t.Error("all share, but some do not")
	}
}
