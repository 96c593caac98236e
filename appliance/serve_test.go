// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"windhover/control"
	"windhover/internal/testmodel"
)

// box is a whole appliance on loopback with a state directory of its own.
type box struct {
	cfg    Config
	stop   context.CancelFunc
	done   chan error
	hup    chan os.Signal
	notify *net.UnixConn
	said   chan string // what the daemon says to the service manager
	wrong  error       // with the configuration, when it is read again
}

// waitFor is how long anything may take that should be quick, race detector included.
const waitFor = 60 * time.Second

func startBox(t *testing.T, change func(*Config)) *box {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Device = "box"
	cfg.Paths.State = t.TempDir()
	cfg.Paths.Trust = filepath.Join(cfg.Paths.State, "trust.d")
	cfg.MQTT.Embedded.Listen = freePort(t)
	cfg.HTTP.Listen = freePort(t)
	cfg.Engine.Threads, cfg.Engine.Pin = 1, false
	if change != nil {
		change(&cfg)
	}
	if err := cfg.finish(); err != nil {
		t.Fatal(err)
	}
	b := &box{cfg: cfg, done: make(chan error, 1), hup: make(chan os.Signal)}
	// A socket of systemd's kind hears what the daemon says of itself.
	sock := filepath.Join(t.TempDir(), "notify")
	var err error
	if b.notify, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: sock, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NOTIFY_SOCKET", sock)
	b.said = make(chan string, 1024)
	go listen(b.notify, b.said)
	t.Cleanup(func() {
		b.shutdown(t)
		if err := b.notify.Close(); err != nil {
			t.Error(err)
		}
	})
	b.start(t)
	return b
}

// start runs the daemon and waits until it is ready.
func (b *box) start(t *testing.T) {
	t.Helper()
	var ctx context.Context
	ctx, b.stop = context.WithCancel(context.Background())
	go func() {
		b.done <- Serve(ctx, b.cfg, ServeOptions{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Self: []string{"/bin/false"}, Reload: b.hup,
			Load: func() (Loaded, error) { return Loaded{Config: b.cfg}, b.wrong }})
	}()
	b.heard(t, "READY=1")
}

func (b *box) restart(t *testing.T) {
	t.Helper()
	b.shutdown(t)
	<-b.done
	b.start(t)
}

func (b *box) shutdown(t *testing.T) {
	t.Helper()
	b.stop()
	select {
	case err := <-b.done:
		if err != nil {
			t.Errorf("serve: %v", err)
		}
		b.done <- nil
	case <-time.After(waitFor):
		t.Fatal("the appliance does not stop")
	}
}

// listen hands on what comes until the socket is closed. It always reads, as
// systemd does: a full socket would block the sender.
func listen(c *net.UnixConn, said chan<- string) {
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		select {
		case said <- string(buf[:n]):
		default:
		}
	}
}

// heard waits for a message to the service manager that begins with prefix.
func (b *box) heard(t *testing.T, prefix string) {
	t.Helper()
	late := time.After(waitFor)
	for {
		select {
		case s := <-b.said:
			if strings.HasPrefix(s, prefix) {
				return
			}
		case <-late:
			t.Fatalf("the daemon never says %q", prefix)
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	return l.Addr().String()
}

func (b *box) drop(t *testing.T, name string, data []byte) {
	t.Helper()
	tmp := filepath.Join(b.cfg.Paths.drop(), "."+name+".part")
	writeBytes(t, tmp, data)
	if err := os.Rename(tmp, filepath.Join(b.cfg.Paths.drop(), name)); err != nil {
		t.Fatal(err)
	}
}

// until polls for something that no event tells of.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(waitFor)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		<-tick.C
	}
}

func (b *box) ready(t *testing.T, name string) {
	t.Helper()
	until(t, name+" is ready", func() bool {
		doc, err := LocalStatus(context.Background(), b.cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range doc.Models {
			if m.Name == name && m.State == stateFailed {
				t.Fatalf("%s failed: %v", name, m.Error)
			}
			if m.Name == name && m.State == stateReady {
				return true
			}
		}
		return false
	})
}

// client is one of the box's broker, once that is there.
func (b *box) client(t *testing.T, name string) *control.Client {
	t.Helper()
	b.connected(t)
	ctx, cancel := context.WithTimeout(context.Background(), waitFor)
	defer cancel()
	c, err := control.DialClient(ctx, control.ClientConfig{Endpoint: control.Endpoint{URL: "mqtt://" + b.cfg.MQTT.Embedded.Listen}, Device: b.cfg.Device, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func request(prompt string, max int) *control.Request {
	zero := float32(0)
	return &control.Request{Op: control.OpGenerate, Prompt: prompt, MaxTokens: max, Temperature: &zero, Stream: true, StreamQoS: 1, FinalText: true, RepeatPenalty: 1}
}

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

func httpStatus(t *testing.T, b *box, path string) int {
	t.Helper()
	resp, err := http.Get("http://" + b.cfg.HTTP.Listen + path)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
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

func modelDigest(t *testing.T, b *box, name string) string {
	t.Helper()
	doc, err := LocalStatus(context.Background(), b.cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range doc.Models {
		if m.Name == name {
			return m.SHA256
		}
	}
	return ""
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

// connected waits for the broker, which a daemon that is ready may still be starting.
func (b *box) connected(t *testing.T) {
	t.Helper()
	until(t, "the broker is there", func() bool {
		doc, err := LocalStatus(context.Background(), b.cfg)
		return err == nil && strings.HasPrefix(doc.MQTT, "mqtt://") && !strings.Contains(doc.MQTT, "not connected")
	})
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

// reload asks the daemon to look again, as SIGHUP does.
func (b *box) reload(t *testing.T) {
	t.Helper()
	b.hup <- os.Interrupt
}
