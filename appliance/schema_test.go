// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windhover/control"
)

// TestLaterStateOfTheBox_P80 has one file of a later program in each state: the daemon
// does not start, says which one it is, and changes none.
func TestLaterStateOfTheBox_P80(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	for _, c := range []string{
		"state/session", "state/dedupe.log", "state/retained.json", "state/jobs/me~j.json",
		"state/installed.json", "state/trial.json", "state/plan-" + sum + ".json", "quarantine/sha256-" + sum + ".json",
	} {
		t.Run(c, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Device, cfg.Paths.State, cfg.MQTT.Embedded.Listen, cfg.HTTP.Listen = "box", t.TempDir(), freePort(t), freePort(t)
			if err := cfg.finish(); err != nil {
				t.Fatal(err)
			}
			const text = `{"v":99,"model":{"is":"another thing"},"session":true}` + "\n"
			path := filepath.Join(cfg.Paths.State, filepath.FromSlash(c))
			writeBytes(t, path, []byte(text))
			err := Serve(context.Background(), cfg, ServeOptions{Log: slog.New(slog.DiscardHandler)})
			if !errors.Is(err, control.Incompatible) || !strings.Contains(err.Error(), filepath.Base(path)) {
				t.Fatalf("Serve: %v", err)
			}
			if left, err := os.ReadFile(path); err != nil || string(left) != text {
				t.Errorf("it is now %q, %v", left, err)
			}
			for _, dir := range []string{cfg.Paths.state(), cfg.Paths.quarantine()} {
				if err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
					if err == nil && !d.IsDir() && at != path && d.Name() != "lock" {
						t.Errorf("%s was written", at)
					}
					return err
				}); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// versioned holds that every file of a box's state says which version it is of.
func versioned(t *testing.T, p Paths) {
	t.Helper()
	n := 0
	for _, dir := range []string{p.state(), p.quarantine(), p.incoming()} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if ext := filepath.Ext(path); err != nil || d.IsDir() || ext != ".json" && ext != ".log" && d.Name() != "session" {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			var is struct{ V int }
			if err := json.NewDecoder(strings.NewReader(string(data))).Decode(&is); err != nil || is.V < 1 {
				t.Errorf("%s has no version: %.80s", path, data)
			}
			n++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n < 2 {
		t.Errorf("%d files of state: this test looks in the wrong place", n)
	}
}
