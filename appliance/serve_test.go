// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"windhover/control"
	"windhover/internal/testmodel"
)

func TestServeDropAsk(t *testing.T) {
	b := startBox(t, nil)
	b.drop(t, "m.vqf", tinyModel(t, nil))
	b.ready(t, "m")
	c := b.client(t, "you")
	ctx, cancel := context.WithTimeout(context.Background(), waitFor)
	defer cancel()
	var streamed strings.Builder
	a, err := c.Send(ctx, request("hello", 8), func(r *control.Reply) error {
		if r.Delta != nil {
			streamed.WriteString(r.Delta.Text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if a.Text == "" || a.Text != streamed.String() {
		t.Errorf("streamed %q, final %q", streamed.String(), a.Text)
	}
	if a.Done.Model == nil || a.Done.Model.Name != "m" || a.Done.Usage.Completion == 0 {
		t.Errorf("done: %+v", a.Done)
	}
	again, err := c.Send(ctx, request("hello", 8), nil)
	if err != nil || again.Text != a.Text {
		t.Errorf("the same greedy request: %q, %v; want %q", again.Text, err, a.Text)
	}
	if again.Done.Usage.Cached == 0 {
		t.Error("the prefix is not reused")
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/v1/status": 404} {
		if got := httpStatus(t, b, path); got != want {
			t.Errorf("GET %s: %d, want %d", path, got, want)
		}
	}
	if err := os.Remove(filepath.Join(b.cfg.Paths.drop(), "m.vqf")); err != nil {
		t.Fatal(err)
	}
	until(t, "m is gone", func() bool { return httpStatus(t, b, "/readyz") == 503 })
	_, err = c.Send(ctx, request("hello", 8), nil)
	if !errors.Is(err, control.UnknownModel) {
		t.Errorf("without a model: got %v", err)
	}
	b.stop()
	b.heard(t, "STOPPING=1")
	versioned(t, b.cfg.Paths)
}

// No request fails while one version takes the place of another, again and again.
func TestHotSwapUnderLoad(t *testing.T) {
	b := startBox(t, nil)
	versions := [][]byte{tinyModel(t, nil), tinyModel(t, func(c *testmodel.Config) { c.Seed = 5 })}
	b.drop(t, "m.vqf", versions[0])
	b.ready(t, "m")
	ctx, cancel := context.WithTimeout(context.Background(), waitFor)
	defer cancel()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	served := map[string]int{}
	for i := range 2 {
		c := b.client(t, fmt.Sprintf("c%d", i))
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				a, err := c.Send(ctx, request(fmt.Sprintf("hello %d", n), 24), nil)
				if err != nil {
					t.Errorf("client %d, request %d: %v", i, n, err)
					return
				}
				mu.Lock()
				served[a.Done.Model.SHA256]++
				mu.Unlock()
			}
		})
	}
	countOf := func() int {
		mu.Lock()
		defer mu.Unlock()
		n := 0
		for _, v := range served {
			n += v
		}
		return n
	}
	for swap := 1; swap <= 4; swap++ {
		before := countOf()
		until(t, "requests go on", func() bool { return countOf() > before || t.Failed() })
		old := modelDigest(t, b, "m")
		b.drop(t, "m.vqf", versions[swap%2])
		until(t, "the new version serves", func() bool { return modelDigest(t, b, "m") != old || t.Failed() })
	}
	before := countOf()
	until(t, "requests go on", func() bool { return countOf() > before || t.Failed() })
	close(stop)
	wg.Wait()
	if len(served) != 2 {
		t.Errorf("answers by version: %v, want both", served)
	}
}

// A weight file that somebody truncates under the mapping fails the request that
// needs the lost pages, not the daemon.
func TestTruncatedMapping(t *testing.T) {
	b := startBox(t, nil)
	b.drop(t, "m.vqf", tinyModel(t, nil))
	b.ready(t, "m")
	c := b.client(t, "you")
	ctx, cancel := context.WithTimeout(context.Background(), waitFor)
	defer cancel()
	stored, err := filepath.Glob(filepath.Join(b.cfg.Paths.store(), "*", "model.vqf"))
	if err != nil || len(stored) != 1 {
		t.Fatal(stored, err)
	}
	// The first blow hits the dropped file, which shares its inode: the model moves
	// away before. The second one hits the copy.
	for range 2 {
		if err := os.Chmod(stored[0], 0o640); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(stored[0], 4096); err != nil {
			t.Fatal(err)
		}
	}
	_, err = c.Send(ctx, request("a prompt that was never asked", 8), nil)
	if !errors.Is(err, control.ModelIOError) {
		t.Errorf("got %v, want model_io_error", err)
	}
	// The daemon lives and takes a whole copy.
	if err := os.Remove(filepath.Join(b.cfg.Paths.drop(), "m.vqf")); err != nil {
		t.Fatal(err)
	}
	b.drop(t, "other.vqf", tinyModel(t, nil))
	b.ready(t, "other")
	until(t, "an answer", func() bool {
		r := request("hello", 4)
		r.Model = "other"
		_, err := c.Send(ctx, r, nil)
		return err == nil
	})
}

func TestStartWithoutPort_P57(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := startBox(t, func(c *Config) { c.MQTT.Embedded.Listen = taken.Addr().String() })
	// Ready without MQTT, and a model deploys.
	b.drop(t, "m.vqf", tinyModel(t, nil))
	b.ready(t, "m")
	doc, err := LocalStatus(context.Background(), b.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if doc.MQTT != "waiting for broker" {
		t.Errorf("mqtt: %q", doc.MQTT)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	b.connected(t)
}

func TestSecondDaemonIsRefused(t *testing.T) {
	b := startBox(t, nil)
	err := Serve(context.Background(), b.cfg, ServeOptions{Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "another windhover") {
		t.Errorf("got %v", err)
	}
}

// SIGHUP makes a changed policy count, and a FIFO where a key should be stops neither
// the models nor the daemon.
func TestReloadTakesOverThePolicy_P130(t *testing.T) {
	b := startBox(t, func(c *Config) {
		c.VQF.KeyFile = filepath.Join(c.Paths.State, "passphrase")
		for _, path := range []string{c.VQF.KeyFile, filepath.Join(c.Paths.Trust, "bad.sm2.pub")} {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mkfifo(path, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	})
	state := func(name string) string {
		doc, err := LocalStatus(context.Background(), b.cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range doc.Models {
			if m.Name == name && m.Error != nil {
				return m.State + " " + m.Error.Code.Name
			} else if m.Name == name {
				return m.State
			}
		}
		return ""
	}
	b.drop(t, "m.vqf", tinyModel(t, nil))
	b.drop(t, "secret.vqf", sealedModel(t, sealing{passphrase: "swordfish"}, nil))
	b.ready(t, "m")
	until(t, "the encrypted model is refused", func() bool { return state("secret") == "failed passphrase_missing" })
	b.cfg.Drop.RequireSignature = true
	b.reload(t)
	until(t, "the unsigned model serves no more", func() bool { return state("m") == "failed signature_missing" })
	b.cfg.Drop.RequireSignature = false
	b.reload(t)
	until(t, "the unsigned model serves again", func() bool { return state("m") == "ready" })
	rec, err := b.job(t, "config_reload", "again", map[string]string{})
	var said map[string][]string
	if err != nil || json.Unmarshal(rec.Result, &said) != nil || said["applied"] == nil || said["needs_restart"] == nil {
		t.Errorf("config_reload: %s, %v", rec.Result, err)
	}
}
