// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windhover/control"
)

// A book of an earlier version is taken over, one of a later version keeps the daemon
// from starting, and stays as it is.
func TestBookOfOtherVersions_P79_P80(t *testing.T) {
	state := t.TempDir()
	ctx := context.Background()
	r := newRig(t, state)
	r.put(t, "m.vqf", tinyModel(t, nil))
	r.scan(ctx)
	data, err := os.ReadFile(r.book.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"", "\"v\": 2,"} {
		text := strings.Replace(string(data), `"v": 1,`, v, 1)
		if text == string(data) {
			t.Fatalf("the book has no version: %s", text)
		}
		write(t, r.book.path, text)
		b, err := openBook(r.book.path)
		if v == "" {
			if err != nil || len(b.Models) != 1 || b.V != bookVersion {
				t.Errorf("an earlier book: %v, %+v", err, b)
			}
			continue
		}
		if !errors.Is(err, control.Incompatible) {
			t.Errorf("a later book: %v", err)
		}
		cfg := DefaultConfig()
		cfg.Device, cfg.Paths.State, cfg.MQTT.Embedded.Listen, cfg.HTTP.Listen = "box", state, freePort(t), freePort(t)
		if err := cfg.finish(); err != nil {
			t.Fatal(err)
		}
		if err := Serve(ctx, cfg, ServeOptions{Log: slog.New(slog.DiscardHandler)}); !errors.Is(err, control.Incompatible) {
			t.Errorf("the daemon starts with a later book: %v", err)
		}
		if left, err := os.ReadFile(filepath.Join(state, "state", "installed.json")); err != nil || string(left) != text {
			t.Errorf("the later book was touched: %v", err)
		}
	}
}
