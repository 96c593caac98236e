// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// oldState is a state directory as it was before its files had versions.
var oldState = map[string]string{
	"session":    "41\n",
	"dedupe.log": `{"client":"me","id":"old","sha256":"ab"}` + "\n",
	retainedFile: `["windhover/v1/edge1/model/gone"]`,
	"jobs/me~w.json": `{"record":{"v":1,"id":"w","type":"verify","client":"me","status":"queued","version":1,` +
		`"progress":{"done":0,"total":0,"pct":0},"attempt":1,"result":null,"error":null,"created_at":"2026-11-29T12:00:00Z","updated_at":"2026-11-29T12:00:00Z"},"params":{},"sha256":"cd"}`,
}

func layState(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "jobs"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestOlderState_P79 is taken over whole, and written with a version.
func TestOlderState_P79(t *testing.T) {
	dir := layState(t, oldState)
	g := newRig(t, &fake{}, func(c *Config) { anyone(c); c.StateDir = dir })
	g.resync()
	if g.Session() != 42 {
		t.Errorf("session %d", g.Session())
	}
	if r := g.finalRecord("me", "w"); r.Status != JobSucceeded {
		t.Errorf("the job that waited ends as %+v", r)
	}
	g.tell("me", "verify", "old", `{}`)
	if r := g.end("me", "old"); !errors.Is(r.Err, DuplicateID) {
		t.Errorf("an id of before: %+v", r)
	}
	g.await("the document of a model that went", func() bool { return len(g.messages(g.topics.Model("gone"))) > 0 })
	if err := g.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name := range oldState {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || schemaOf(data) != schemaVersion {
			t.Errorf("%s: %s (%v)", name, data, err)
		}
	}
}

// TestLaterState_P80 is refused, and nothing of it changes.
func TestLaterState_P80(t *testing.T) {
	for name, text := range map[string]string{
		"session":        `{"v":2,"session":41,"more":true}`,
		"dedupe.log":     `{"v":2}` + "\n" + `{"who":"me"}` + "\n",
		retainedFile:     `{"v":3,"topics":{"a":1}}`,
		"jobs/me~w.json": `{"v":2,"steps":[]}`,
	} {
		files := map[string]string{}
		for k, v := range oldState {
			files[k] = v
		}
		files[name] = text
		dir := layState(t, files)
		_, err := New(Config{Device: "edge1", StateDir: dir}, &fake{})
		if !errors.Is(err, Incompatible) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		for k, v := range files {
			if got, err := os.ReadFile(filepath.Join(dir, k)); err != nil || string(got) != v {
				t.Errorf("%s: %s became %s (%v)", name, k, got, err)
			}
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != len(oldState) {
			t.Errorf("%s: the directory has %v (%v)", name, entries, err)
		}
	}
}
