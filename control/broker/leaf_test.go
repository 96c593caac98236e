// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/nats-io/nats-server/v2/server"
)

// hubEnv makes this program a NATS server instead of running its tests:
// DIR MQTT-PORT LEAF-PORT.
const hubEnv = "WINDHOVER_TEST_HUB"

func TestMain(m *testing.M) {
	if args := strings.Fields(os.Getenv(hubEnv)); len(args) == 3 {
		if err := serveHub(args[0], args[1], args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveHub is the other process: a NATS server as an operator runs one, with a port
// for MQTT and one for leaf nodes that asks for a user.
func serveHub(dir, mqttPort, leafPort string) error {
	mp, err := strconv.Atoi(mqttPort)
	if err != nil {
		return err
	}
	lp, err := strconv.Atoi(leafPort)
	if err != nil {
		return err
	}
	o := &server.Options{
		ServerName: "hub", DontListen: true, NoSigs: true, JetStream: true, StoreDir: dir, JetStreamDomain: "hub",
		MQTT: server.MQTTOpts{Host: "127.0.0.1", Port: mp},
	}
	o.LeafNode.Host, o.LeafNode.Port = "127.0.0.1", lp
	o.LeafNode.Username, o.LeafNode.Password = "box", "pw"
	srv, err := server.NewServer(o)
	if err != nil {
		return err
	}
	srv.Start()
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	<-end
	srv.Shutdown()
	srv.WaitForShutdown()
	return nil
}

// hub is that process.
type hub struct {
	t          *testing.T
	dir        string
	mqtt, leaf int
	cmd        *exec.Cmd
}

func newHub(t *testing.T) *hub {
	t.Helper()
	h := &hub{t: t, dir: t.TempDir(), mqtt: unused(t), leaf: unused(t)}
	h.start()
	t.Cleanup(h.kill)
	return h
}

func unused(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (h *hub) start() {
	h.t.Helper()
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	h.cmd = exec.Command(self)
	h.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d", hubEnv, h.dir, h.mqtt, h.leaf))
	h.cmd.Stderr = os.Stderr
	if err := h.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hub) kill() {
	_ = h.cmd.Process.Kill() // it may be gone
	_ = h.cmd.Wait()
}

// client connects to the hub once it answers.
func (h *hub) client(id string) (mqtt.Client, chan got) {
	h.t.Helper()
	b := &Broker{addr: fmt.Sprintf("127.0.0.1:%d", h.mqtt)}
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, in, err := dial(h.t, b, id, "", "", true)
		if err == nil {
			return c, in
		}
		if time.Now().After(limit) {
			h.t.Fatalf("the hub does not answer: %v", err)
		}
	}
}

// linked waits for the link to stand or not.
func linked(t *testing.T, b *Broker, want bool) {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); b.Linked() != want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("the link stands: %v", b.Linked())
		}
	}
}

// ask publishes until the answer comes: interest crosses a link a moment after the
// link stands, and there is no word of it.
func ask(t *testing.T, c mqtt.Client, topic, payload string, in chan got) got {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); ; {
		must(t, c.Publish(topic, 1, false, payload))
		select {
		case g := <-in:
			return g
		case <-time.After(200 * time.Millisecond):
		}
		if time.Now().After(limit) {
			t.Fatalf("nothing came on the other side of %s", topic)
		}
	}
}

// TestLeaf_P58 joins a box to a hub in another process: a request published there arrives
// here, its answer there, with QoS 1; what the box retains is there for who comes
// later. The hub dies and comes back, and the box serves its own clients all the while.
func TestLeaf_P58(t *testing.T) {
	h := newHub(t)
	file := filepath.Join(t.TempDir(), "leaf")
	if err := os.WriteFile(file, []byte("box:pw\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	remote, replies := h.client("remote")
	b := start(t, Options{Device: "edge1", Leaf: Leaf{URL: fmt.Sprintf("nats://127.0.0.1:%d", h.leaf), Credentials: file}})
	linked(t, b, true)
	dev, requests, err := dial(t, b, "dev", "", "", true)
	if err != nil {
		t.Fatal(err)
	}
	const req, res, status = "windhover/v1/edge1/req/me/prompt", "windhover/v1/edge1/res/me/r1", "windhover/v1/edge1/status"
	must(t, dev.Subscribe("windhover/v1/edge1/req/+/+", 1, nil))
	must(t, remote.Subscribe("windhover/v1/edge1/res/me/#", 1, nil))
	if g := ask(t, remote, req, "hi", requests); g.topic != req || g.payload != "hi" {
		t.Errorf("the box got %+v", g)
	}
	if g := ask(t, dev, res, "hello", replies); g.topic != res || g.payload != "hello" {
		t.Errorf("the hub got %+v", g)
	}
	must(t, dev.Publish(status, 1, true, "online"))
	late, in := h.client("late")
	seen := false
	for limit := time.Now().Add(20 * time.Second); !seen && time.Now().Before(limit); {
		must(t, late.Subscribe(status, 1, nil))
		select {
		case g := <-in:
			seen = g.retained && g.payload == "online"
		case <-time.After(200 * time.Millisecond):
		}
	}
	if !seen {
		t.Error("who comes late at the hub does not see what the box retains")
	}

	h.kill()
	linked(t, b, false)
	local, _, err := dial(t, b, "local", "", "", true)
	if err != nil {
		t.Fatal(err)
	}
	if g := ask(t, local, req, "here", requests); g.payload != "here" && g.payload != "hi" {
		t.Errorf("without the hub the box got %+v", g)
	}
	h.start()
	linked(t, b, true)
	remote, replies = h.client("remote2")
	must(t, remote.Subscribe("windhover/v1/edge1/res/me/#", 1, nil))
	if g := ask(t, dev, res, "again", replies); g.payload != "again" {
		t.Errorf("after it came back the hub got %+v", g)
	}
}

func TestLeafRefuses(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("nothing of use\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		leaf Leaf
		want string
	}{
		{Leaf{URL: "mqtt://hub"}, "leaf_url"},
		{Leaf{URL: "nats://"}, "leaf_url"},
		{Leaf{URL: "nats://hub.example"}, "allow_plaintext"},
		{Leaf{URL: "tls://box:secret@hub.example"}, "leaf_credentials"},
		{Leaf{URL: "tls://hub.example", Credentials: bad}, "user:password"},
		{Leaf{URL: "tls://hub.example", Credentials: filepath.Join(dir, "none")}, "leaf_credentials"},
		{Leaf{URL: "tls://hub.example", CAFile: bad}, "leaf_ca_file"},
		{Leaf{URL: "tls://hub.example", CAFile: filepath.Join(dir, "none")}, "leaf_ca_file"},
	} {
		_, err := c.leaf.remote()
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v, want %q", c.leaf, err, c.want)
		}
	}
	if r, err := (Leaf{URL: "tls://[::1]"}).remote(); err != nil || r.URLs[0].Host != "[::1]:7422" || !r.TLS {
		t.Errorf("%+v %v", r, err)
	}
	if r, err := (Leaf{}).remote(); r != nil || err != nil {
		t.Errorf("no link is %+v %v", r, err)
	}
}
