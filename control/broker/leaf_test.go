// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/nats-io/nats-server/v2/server"
)

// hubEnv makes this program a NATS server instead of running its tests: a hub in JSON.
const hubEnv = "WINDHOVER_TEST_HUB"

func TestMain(m *testing.M) {
	if text := os.Getenv(hubEnv); text != "" {
		if err := serveHub([]byte(text)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveHub is the other process: a NATS server as an operator runs one, with a port
// for MQTT and one for leaf nodes that asks for a user; alone or in a cluster.
func serveHub(text []byte) error {
	var h hub
	if err := json.Unmarshal(text, &h); err != nil {
		return err
	}
	o := &server.Options{
		ServerName: h.Name, DontListen: len(h.Routes) == 0, Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true,
		JetStream: true, StoreDir: h.Dir, JetStreamDomain: "hub",
		MQTT: server.MQTTOpts{Host: "127.0.0.1", Port: h.MQTT},
	}
	o.LeafNode.Host, o.LeafNode.Port = "127.0.0.1", h.Leaf
	o.LeafNode.Username, o.LeafNode.Password = "box", "pw"
	if len(h.Routes) > 0 {
		o.Cluster = server.ClusterOpts{Name: "hub", Host: "127.0.0.1", Port: h.Cluster}
		for _, port := range h.Routes {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
		}
	}
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
	Name       string
	Dir        string
	MQTT, Leaf int
	Cluster    int   // port for the other servers of its cluster
	Routes     []int // those of all of them; none: it is alone

	t   *testing.T
	cmd *exec.Cmd
}

func newHub(t *testing.T) *hub {
	t.Helper()
	return newCluster(t, 1)[0]
}

// newCluster starts n servers that are one, each a process of its own.
func newCluster(t *testing.T, n int) []*hub {
	t.Helper()
	hubs := make([]*hub, n)
	var routes []int
	for i := range hubs {
		hubs[i] = &hub{t: t, Name: fmt.Sprint("hub", i), Dir: t.TempDir(), MQTT: unused(t), Leaf: unused(t), Cluster: unused(t)}
		routes = append(routes, hubs[i].Cluster)
	}
	for _, h := range hubs {
		if n > 1 {
			h.Routes = routes
		}
		h.start()
		t.Cleanup(h.kill)
	}
	return hubs
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
	text, err := json.Marshal(h)
	if err != nil {
		h.t.Fatal(err)
	}
	h.cmd = exec.Command(self)
	h.cmd.Env = append(os.Environ(), hubEnv+"="+string(text))
	h.cmd.Stderr = os.Stderr
	if err := h.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
}

// join starts a box whose broker has a link to this server.
func (h *hub) join() *Broker {
	h.t.Helper()
	file := filepath.Join(h.t.TempDir(), "leaf")
	if err := os.WriteFile(file, []byte("box:pw\n"), 0o600); err != nil {
		h.t.Fatal(err)
	}
	b := start(h.t, Options{Device: "edge1", Leaf: Leaf{URL: fmt.Sprintf("nats://127.0.0.1:%d", h.Leaf), Credentials: file}})
	linked(h.t, b, true)
	return b
}

func (h *hub) kill() {
	_ = h.cmd.Process.Kill() // it may be gone
	_ = h.cmd.Wait()
}

// client connects to the hub once it answers.
func (h *hub) client(id string) (mqtt.Client, chan got) {
	h.t.Helper()
	b := &Broker{addr: fmt.Sprintf("127.0.0.1:%d", h.MQTT)}
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

// seesRetained holds that somebody who comes later finds what was retained.
func (h *hub) seesRetained(id, topic, want string) {
	h.t.Helper()
	c, in := h.client(id)
	for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit); {
		must(h.t, c.Subscribe(topic, 1, nil))
		select {
		case g := <-in:
			if g.retained && g.payload == want {
				return
			}
		case <-time.After(200 * time.Millisecond):
		}
	}
	h.t.Errorf("who comes late at %s does not see what is retained on %s", h.Name, topic)
}

// TestLeaf_P58 joins a box to a hub in another process: a request published there arrives
// here, its answer there, with QoS 1; what the box retains is there for who comes
// later. The hub dies and comes back, and the box serves its own clients all the while.
func TestLeaf_P58(t *testing.T) {
	h := newHub(t)
	remote, replies := h.client("remote")
	b := h.join()
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
	h.seesRetained("late", status, "online")

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

// TestLeafOfACluster_P112 joins a box to one server of a cluster of three, each in a process
// of its own: who is connected to another one of them asks the box and is answered. The
// server that the box is linked to dies; the box, which was told of one alone, links to
// another, and everything goes on.
func TestLeafOfACluster_P112(t *testing.T) {
	hubs := newCluster(t, 3)
	b := hubs[0].join()
	const req, res, status = "windhover/v1/edge1/req/me/prompt", "windhover/v1/edge1/res/me/r1", "windhover/v1/edge1/status"
	dev, requests, err := dial(t, b, "dev", "", "", true)
	if err != nil {
		t.Fatal(err)
	}
	must(t, dev.Subscribe("windhover/v1/edge1/req/+/+", 1, nil))
	remote, replies := hubs[1].client("remote")
	must(t, remote.Subscribe("windhover/v1/edge1/res/me/#", 1, nil))
	if g := ask(t, remote, req, "hi", requests); g.topic != req || g.payload != "hi" {
		t.Errorf("the box got %+v", g)
	}
	if g := ask(t, dev, res, "hello", replies); g.topic != res || g.payload != "hello" {
		t.Errorf("the client got %+v", g)
	}
	must(t, dev.Publish(status, 1, true, "online"))
	hubs[2].seesRetained("late", status, "online")

	hubs[0].kill()
	linked(t, b, true) // to another server, or not yet
	if g := ask(t, dev, res, "still", replies); g.payload != "still" && g.payload != "hello" {
		t.Errorf("after the server died the client got %+v", g)
	}
	for g := (got{}); g.payload != "again"; { // what was published in between may come first
		g = ask(t, remote, req, "again", requests)
	}
	hubs[2].seesRetained("later", status, "online")
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
