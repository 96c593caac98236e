// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fileOf is the open socket of a listener, as systemd would hand it over.
func fileOf(t *testing.T, l net.Listener) *os.File {
	t.Helper()
	f, err := l.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = f.Close() // taken over, or still open after a failure
		_ = l.Close()
	})
	return f
}

func listenAt(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestTakeSockets(t *testing.T) {
	dir := t.TempDir()
	local := listenAt(t, "unix", filepath.Join(dir, "a"))
	port := listenAt(t, "tcp", "127.0.0.1:0")
	g, err := takeSockets([]*os.File{fileOf(t, port), fileOf(t, local)})
	if err != nil || g.local == nil || g.http == nil {
		t.Fatalf("%+v, %v", g, err)
	}
	if g.local.Addr().String() != local.Addr().String() || g.http.Addr().String() != port.Addr().String() {
		t.Errorf("local %s, http %s", g.local.Addr(), g.http.Addr())
	}
	if err := g.close(); err != nil {
		t.Error(err)
	}
	if !exists(filepath.Join(dir, "a")) {
		t.Error("the socket of systemd was removed")
	}
	if g, err := takeSockets(nil); err != nil || g != (given{}) {
		t.Errorf("none: %+v, %v", g, err)
	}

	twice := []*os.File{fileOf(t, port), fileOf(t, listenAt(t, "tcp", "127.0.0.1:0"))}
	if _, err := takeSockets(twice); err == nil || !strings.Contains(err.Error(), "one more of its kind") {
		t.Errorf("two for HTTP: %v", err)
	}
	datagrams, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer datagrams.Close()
	f, err := datagrams.(*net.UDPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := takeSockets([]*os.File{f}); err == nil || !strings.Contains(err.Error(), "ListenStream=") {
		t.Errorf("datagrams: %v", err)
	}
}

// A socket unit cannot open the interface to the network without a token either.
func TestGivenPortNeedsToken(t *testing.T) {
	for _, tt := range []struct {
		listen, token string
		want          bool
	}{{"127.0.0.1:0", "", true}, {"0.0.0.0:0", "", false}, {"0.0.0.0:0", "/token", true}} {
		s := &server{log: slog.New(slog.DiscardHandler), given: given{http: listenAt(t, "tcp", tt.listen)}}
		s.cfg.HTTP.TokenFile = tt.token
		l, err := s.listenHTTP()
		if (l != nil) != tt.want || err != nil {
			t.Errorf("%+v: got %v, %v", tt, l, err)
		}
		_ = s.given.http.Close() // closed already, where it was refused
	}
}

// A port that another program has when the box starts is taken as soon as it is free.
func TestHTTPPortTaken(t *testing.T) {
	other := listenAt(t, "tcp", "127.0.0.1:0")
	b := startBox(t, func(c *Config) { c.HTTP.Listen = other.Addr().String() })
	until(t, "the box serves without HTTP", func() bool {
		_, err := LocalStatus(context.Background(), b.cfg)
		return err == nil
	})
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "HTTP is there", func() bool {
		resp, err := http.Get("http://" + b.cfg.HTTP.Listen + "/healthz")
		return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
}

const givenEnv = "WINDHOVER_TEST_GIVEN"

// Under socket units nobody is refused while the daemon is down: a connection waits in
// the socket until the next start answers it.
func TestSocketsOfSystemd(t *testing.T) {
	if state := os.Getenv(givenEnv); state != "" {
		serveGiven(t, state)
		return
	}
	state := t.TempDir()
	local := listenAt(t, "unix", filepath.Join(state, "s.sock"))
	port := listenAt(t, "tcp", "127.0.0.1:0")
	files := []*os.File{fileOf(t, local), fileOf(t, port)}
	start := func() *exec.Cmd {
		// The process id has to be that of the daemon, so a shell becomes it.
		cmd := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, os.Args[0], "-test.run=^TestSocketsOfSystemd$")
		cmd.Env = append(os.Environ(), givenEnv+"="+state, "LISTEN_FDS=2")
		cmd.ExtraFiles = files
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	stop := func(cmd *exec.Cmd) {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the daemon: %v", err)
		}
	}
	client := &http.Client{Timeout: waitFor, Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(c *http.Client, url string) string {
		res, err := c.Get(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			return ""
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	overSocket := &http.Client{Timeout: waitFor, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialSocket(ctx, local.Addr().String())
	}, DisableKeepAlives: true}}

	url := "http://" + port.Addr().String() + "/healthz"
	for range 2 {
		asked := make(chan string, 2) // before anything runs
		go func() { asked <- get(client, url) }()
		go func() { asked <- get(overSocket, "http://socket/healthz") }()
		cmd := start()
		for range 2 {
			if got := <-asked; got != "ok\n" {
				t.Errorf("got %q", got)
			}
		}
		stop(cmd)
		if !exists(local.Addr().String()) {
			t.Fatal("the daemon removed the socket of systemd")
		}
	}
}

// serveGiven is the daemon of TestSocketsOfSystemd, until SIGTERM.
func serveGiven(t *testing.T, state string) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 2*waitFor)
	defer cancel()
	cfg := DefaultConfig()
	cfg.Device, cfg.Paths.State, cfg.Paths.Socket = "box", state, filepath.Join(state, "s.sock")
	cfg.Paths.Trust, cfg.HTTP.Listen, cfg.MQTT.Embedded.Listen = filepath.Join(state, "trust.d"), "", "127.0.0.1:0"
	if err := cfg.finish(); err != nil {
		t.Fatal(err)
	}
	if err := Serve(ctx, cfg, ServeOptions{Log: slog.New(slog.DiscardHandler), Self: []string{"/bin/false"}}); err != nil {
		t.Fatal(err)
	}
	if ctx.Err() == context.DeadlineExceeded {
		t.Fatal("nobody stopped it for", 2*waitFor/time.Second, "seconds")
	}
}
