// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"windhover/control"
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

// connected waits for the broker, which a daemon that is ready may still be starting.
func (b *box) connected(t *testing.T) {
	t.Helper()
	until(t, "the broker is there", func() bool {
		doc, err := LocalStatus(context.Background(), b.cfg)
		return err == nil && strings.HasPrefix(doc.MQTT, "mqtt://") && !strings.Contains(doc.MQTT, "not connected")
	})
}

// reload asks the daemon to look again, as SIGHUP does.
func (b *box) reload(t *testing.T) {
	t.Helper()
	b.hup <- os.Interrupt
}
