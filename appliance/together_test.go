// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"windhover/control"
)

// Requests of several clients are in work at once, and each gets what it would get
// alone.
func TestClientsTogether(t *testing.T) {
	b := startBox(t, nil)
	b.drop(t, "m.vqf", tinyModel(t, nil))
	b.ready(t, "m")
	b.connected(t)
	ctx, cancel := context.WithTimeout(context.Background(), waitFor)
	defer cancel()
	ask := func(c *control.Client, i int) string {
		r := request(fmt.Sprintf("%d hello", i), 60)
		r.Priority = i % 3
		a, err := c.Send(ctx, r, nil)
		if err != nil {
			t.Errorf("request %d: %v", i, err)
			return ""
		}
		return a.Text
	}
	alone := b.client(t, "alone")
	var want []string
	for i := range 8 {
		want = append(want, ask(alone, i))
	}
	var all sync.WaitGroup
	for client := range 4 {
		c := b.client(t, fmt.Sprintf("c%d", client))
		for i := range 2 {
			all.Go(func() {
				for range 3 {
					n := client*2 + i
					if got := ask(c, n); got != want[n] {
						t.Errorf("request %d: %q, alone %q", n, got, want[n])
					}
				}
			})
		}
	}
	all.Wait()
	resp, err := http.Get("http://" + b.cfg.HTTP.Listen + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"windhover_model_sequences{name=\"m\"} 0\n", "windhover_model_kept_tokens{name=\"m\"} "} {
		if !strings.Contains(string(page), line) {
			t.Errorf("metrics without %q", line)
		}
	}
	doc, err := LocalStatus(ctx, b.cfg)
	if err != nil || doc.Stats.KeptTokens == 0 || doc.Stats.CachedTokens == 0 {
		t.Errorf("status %+v, %v", doc.Stats, err)
	}
}

// What prompts began with is there after a restart, where that is asked for, and for
// the same weights only.
func TestPrefixesOutliveARestart(t *testing.T) {
	for _, save := range []bool{false, true} {
		b := startBox(t, func(c *Config) {
			if save {
				c.Engine.PrefixCache, c.Engine.SharePrefixes = prefixCacheSave, []string{"you*"}
			}
		})
		b.drop(t, "m.vqf", tinyModel(t, nil))
		b.ready(t, "m")
		b.connected(t)
		ctx, cancel := context.WithTimeout(context.Background(), waitFor)
		defer cancel()
		text := strings.Repeat("a long beginning ", 8)
		first, err := b.client(t, "you").Send(ctx, request(text, 8), nil)
		if err != nil {
			t.Fatal(err)
		}
		b.restart(t)
		b.ready(t, "m")
		b.connected(t)
		files, err := filepath.Glob(filepath.Join(b.cfg.Paths.store(), "*", savedName))
		if err != nil || (len(files) == 1) != save {
			t.Errorf("save %v: %v, %v", save, files, err)
		}
		again, err := b.client(t, "you2").Send(ctx, request(text, 8), nil)
		if err != nil {
			t.Fatal(err)
		}
		if again.Text != first.Text || (again.Done.Usage.Cached > len(text)/2) != save {
			t.Errorf("save %v: %q, %+v; want %q", save, again.Text, again.Done.Usage, first.Text)
		}
		if !save {
			continue
		}
		if other, err := b.client(t, "me").Send(ctx, request(text, 8), nil); err != nil || other.Done.Usage.Cached != 0 || other.Text != first.Text {
			t.Errorf("another client after the restart: %+v, %v; want none of it cached", other, err)
		}
		if fi, err := os.Stat(files[0]); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v: want a file for its owner alone", fi.Mode(), err)
		}
	}
}
