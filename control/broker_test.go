// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"windhover/control/broker"
)

// TestMain fails the package when goroutines of ours are left at the end.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		for limit := time.Now().Add(15 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			left := ours()
			if left == "" {
				break
			}
			if time.Now().After(limit) {
				fmt.Fprintf(os.Stderr, "goroutines left:\n%s\n", left)
				code = 1
				break
			}
		}
	}
	os.Exit(code)
}

// ours returns the stacks of goroutines of this package and of the MQTT library.
func ours() string {
	buf := make([]byte, 4<<20)
	var left []string
	for i, s := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if i > 0 && (strings.Contains(s, "windhover/control") || strings.Contains(s, "paho.mqtt")) {
			left = append(left, s)
		}
	}
	return strings.Join(left, "\n\n")
}

// testBroker is a broker that a test may stop and start again on the same port.
type testBroker interface {
	url() string
	start()
	stop()
}

// eachBroker runs a test against the embedded broker and against mosquitto.
func eachBroker(t *testing.T, f func(t *testing.T, b testBroker)) {
	t.Run("embedded", func(t *testing.T) { f(t, newEmbedded(t)) })
	t.Run("mosquitto", func(t *testing.T) { f(t, newMosquitto(t, "allow_anonymous true")) })
}

type embedded struct {
	t    *testing.T
	dir  string
	addr string
	b    *broker.Broker
}

func newEmbedded(t *testing.T) *embedded {
	t.Helper()
	e := &embedded{t: t, dir: t.TempDir(), addr: "127.0.0.1:0"}
	e.start()
	t.Cleanup(e.stop)
	return e
}

func (e *embedded) url() string { return "mqtt://" + e.addr }

func (e *embedded) start() {
	e.t.Helper()
	b, err := broker.Start(broker.Options{Listen: e.addr, Dir: e.dir})
	if err != nil {
		e.t.Fatal(err)
	}
	e.b, e.addr = b, b.Addr()
}

func (e *embedded) stop() { e.b.Close() }

// mosquitto is the real one, as a child process on a port of its own.
type mosquitto struct {
	t    *testing.T
	port int
	conf string
	cmd  *exec.Cmd
}

// newMosquitto starts one with these configuration lines and a plain listener. Where there is none the
// test is skipped, or fails under WINDHOVER_REQUIRE_MOSQUITTO=1.
func newMosquitto(t *testing.T, lines ...string) *mosquitto {
	t.Helper()
	m := &mosquitto{t: t, port: freePort(t), conf: filepath.Join(t.TempDir(), "mosquitto.conf")}
	head := []string{"log_type error", "log_dest stderr"}
	if os.Geteuid() == 0 {
		head = append(head, "user root") // it must read our files
	}
	lines = append(append(head, lines...), fmt.Sprintf("listener %d 127.0.0.1", m.port))
	if strings.Contains(strings.Join(lines, "\n"), "per_listener_settings") {
		lines = append(lines, "allow_anonymous true")
	}
	if err := os.WriteFile(m.conf, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.start()
	t.Cleanup(m.stop)
	return m
}

// tool finds a program of mosquitto.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if path = "/usr/sbin/" + name; !exists(path) {
			if os.Getenv("WINDHOVER_REQUIRE_MOSQUITTO") == "1" {
				t.Fatalf("%s is not installed and WINDHOVER_REQUIRE_MOSQUITTO=1", name)
			}
			t.Skipf("%s is not installed: apt-get install mosquitto mosquitto-clients", name)
		}
	}
	return path
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (m *mosquitto) url() string { return fmt.Sprintf("mqtt://127.0.0.1:%d", m.port) }

func (m *mosquitto) start() {
	m.t.Helper()
	m.cmd = exec.Command(tool(m.t, "mosquitto"), "-c", m.conf)
	if err := m.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	for limit := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", m.port))
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(limit) {
			m.t.Fatalf("mosquitto does not listen: %v", err)
		}
	}
}

func (m *mosquitto) stop() {
	if m.cmd != nil {
		_ = m.cmd.Process.Kill() // it may be gone
		_ = m.cmd.Wait()
		m.cmd = nil
	}
}

// cable passes connections on to a broker and can be cut.
type cable struct {
	l  net.Listener
	to string

	mu    sync.Mutex
	conns []net.Conn
}

func newCable(t *testing.T, to string) *cable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &cable{l: l, to: strings.TrimPrefix(to, "mqtt://")}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.pass(c) })
		}
	})
	t.Cleanup(func() { l.Close(); p.cut(); wg.Wait() })
	return p
}

func (p *cable) url() string { return "mqtt://" + p.l.Addr().String() }

func (p *cable) pass(c net.Conn) {
	defer c.Close()
	b, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer b.Close()
	p.mu.Lock()
	p.conns = append(p.conns, c, b)
	p.mu.Unlock()
	done := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(b, c); b.Close(); done <- struct{}{} }()
	go func() { _, _ = io.Copy(c, b); c.Close(); done <- struct{}{} }()
	<-done
	<-done
}

// cut closes every connection as a pulled cable would, without a DISCONNECT.
func (p *cable) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

// quick is an endpoint that tries again at once.
func quick(url string) Endpoint {
	return Endpoint{URL: url, RetryMin: 10 * time.Millisecond, RetryMax: 100 * time.Millisecond, WriteTimeout: 2 * time.Second}
}

// newDevice starts a device on a broker; it need not run yet.
func newDevice(t *testing.T, b Backend, ep Endpoint, change func(*Config)) *Server {
	t.Helper()
	cfg := Config{Device: "edge1", StateDir: t.TempDir(), State: StateOnline}
	cfg.Policy.Anonymous = []string{"convert", "verify"}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	if err := s.Connect(ep, ep); err != nil {
		t.Fatal(err)
	}
	return s
}

// newCaller connects a client and waits until the device is online.
func newCaller(t *testing.T, ep Endpoint, name string) *Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, err := DialClient(ctx, ClientConfig{Endpoint: ep, Device: "edge1", Name: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last status heard was %+v", c.Status())
		}
	})
	eventually(t, "the device to be online", func() bool { return c.Status().State == StateOnline })
	return c
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("waited 20 s for %s", what)
		}
	}
}

// listener is a plain MQTT client that collects what it reads.
type listener struct {
	t  *testing.T
	c  mqtt.Client
	mu sync.Mutex
	in []mqtt.Message
}

func listen(t *testing.T, ep Endpoint, filters ...string) *listener {
	t.Helper()
	l := &listener{t: t}
	o := mqtt.NewClientOptions().AddBroker(strings.Replace(ep.URL, "mqtt://", "tcp://", 1)).SetClientID(newID()).SetProtocolVersion(4)
	o.SetUsername(ep.Username).SetPassword(ep.Password).SetAutoReconnect(false)
	o.SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.in = append(l.in, m)
	})
	l.c = mqtt.NewClient(o)
	l.wait(l.c.Connect())
	t.Cleanup(func() { l.c.Disconnect(50) })
	for _, f := range filters {
		l.wait(l.c.Subscribe(f, 1, nil))
	}
	return l
}

func (l *listener) wait(tok mqtt.Token) {
	l.t.Helper()
	if err := finish(tok, 20*time.Second); err != nil {
		l.t.Fatal(err)
	}
}

func (l *listener) publish(topic string, retain bool, payload string) {
	l.t.Helper()
	l.wait(l.c.Publish(topic, 1, retain, payload))
}

// on returns the messages of a topic.
func (l *listener) on(topic string) []mqtt.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ms []mqtt.Message
	for _, m := range l.in {
		if m.Topic() == topic {
			ms = append(ms, m)
		}
	}
	return ms
}

// syncBuffer is a buffer that a child process writes and a test reads.
type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
