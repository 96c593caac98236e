// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/eclipse/paho.mqtt.golang/packets"
)

func start(t *testing.T, opt Options) *Broker {
	t.Helper()
	if opt.Listen == "" {
		opt.Listen = "127.0.0.1:0"
	}
	if opt.Dir == "" {
		opt.Dir = t.TempDir()
	}
	b, err := Start(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

type got struct {
	topic, payload string
	retained       bool
}

// dial connects and returns the client, what it receives, and the error.
func dial(t *testing.T, b *Broker, id, user, password string, clean bool) (mqtt.Client, chan got, error) {
	t.Helper()
	in := make(chan got, 100)
	o := mqtt.NewClientOptions().AddBroker("tcp://" + b.Addr()).SetClientID(id).SetCleanSession(clean)
	o.SetUsername(user).SetPassword(password).SetAutoReconnect(false).SetProtocolVersion(4).SetConnectTimeout(30 * time.Second)
	o.SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) {
		in <- got{m.Topic(), string(m.Payload()), m.Retained()}
	})
	c := mqtt.NewClient(o)
	tok := c.Connect()
	if !tok.WaitTimeout(30 * time.Second) {
		t.Fatal("no answer to CONNECT")
	}
	if tok.Error() == nil {
		t.Cleanup(func() { c.Disconnect(100) })
	}
	return c, in, tok.Error()
}

// subscriber is a connection whose packets the test reads itself, after CONNECT and
// SUBSCRIBE with QoS 1.
func subscriber(t *testing.T, b *Broker, id string, clean bool, filter string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	hello := packets.NewControlPacket(packets.Connect).(*packets.ConnectPacket)
	hello.ProtocolName, hello.ProtocolVersion, hello.ClientIdentifier, hello.Keepalive, hello.CleanSession = "MQTT", 4, id, 60, clean
	sub := packets.NewControlPacket(packets.Subscribe).(*packets.SubscribePacket)
	sub.MessageID, sub.Topics, sub.Qoss = 1, []string{filter}, []byte{1}
	if err := hello.Write(nc); err != nil {
		t.Fatal(err)
	}
	if _, err := packets.ReadPacket(nc); err != nil {
		t.Fatal(err)
	}
	if err := sub.Write(nc); err != nil {
		t.Fatal(err)
	}
	return nc
}

func must(t *testing.T, tok mqtt.Token) {
	t.Helper()
	if !tok.WaitTimeout(10*time.Second) || tok.Error() != nil {
		t.Fatalf("no success: %v", tok.Error())
	}
}

func next(t *testing.T, in chan got) got {
	t.Helper()
	select {
	case g := <-in:
		return g
	case <-time.After(10 * time.Second):
		t.Fatal("nothing came within 10 s")
		return got{}
	}
}

func TestKeepsWhatItMustOverARestart_P55(t *testing.T) {
	dir := t.TempDir()
	b := start(t, Options{Dir: dir})
	if !b.Open() || !strings.HasPrefix(b.URL(), "mqtt://127.0.0.1:") {
		t.Errorf("%v at %s", b.Open(), b.URL())
	}
	c, _, err := dial(t, b, "dev", "", "", false)
	if err != nil {
		t.Fatal(err)
	}
	must(t, c.Subscribe("windhover/v1/a.b/cmd/#", 1, nil))
	must(t, c.Publish("windhover/v1/a.b/status", 1, true, "up"))
	c.Disconnect(100)
	p, live, err := dial(t, b, "pub", "", "", true)
	if err != nil {
		t.Fatal(err)
	}
	must(t, p.Subscribe("windhover/v1/a.b/cmd/#", 1, nil))
	must(t, p.Publish("windhover/v1/a.b/cmd/x", 1, false, "job"))
	next(t, live) // QoS 1 comes out of the store, so it is in there now
	for stored := false; !stored; {
		must(t, p.Subscribe("windhover/v1/+/status", 1, nil))
		select {
		case g := <-live:
			stored = g.retained
		case <-time.After(50 * time.Millisecond):
		}
	}
	b.Close()

	b = start(t, Options{Dir: dir})
	_, in, err := dial(t, b, "dev", "", "", false)
	if err != nil {
		t.Fatal(err)
	}
	if g := next(t, in); g.payload != "job" || g.topic != "windhover/v1/a.b/cmd/x" {
		t.Errorf("queued message: %+v", g)
	}
	w, in, err := dial(t, b, "watch", "", "", true)
	if err != nil {
		t.Fatal(err)
	}
	must(t, w.Subscribe("windhover/v1/+/status", 1, nil))
	if g := next(t, in); g.payload != "up" || !g.retained {
		t.Errorf("retained message: %+v", g)
	}
}

// TestCloseDrains_P55 ends many clean sessions by Close. Each leaves requests behind, and
// none may be carried out while the store closes: it would empty the stream.
func TestCloseDrains_P55(t *testing.T) {
	dir := t.TempDir()
	b := start(t, Options{Dir: dir})
	c, _, err := dial(t, b, "dev", "", "", false)
	if err != nil {
		t.Fatal(err)
	}
	must(t, c.Subscribe("q", 1, nil))
	c.Disconnect(100)
	for i := range 10 {
		p, live, err := dial(t, b, fmt.Sprint("pub", i), "", "", true)
		if err != nil {
			t.Fatal(err)
		}
		for j := range 5 {
			must(t, p.Subscribe(fmt.Sprint("t/", j), 1, nil))
		}
		if i == 0 {
			must(t, p.Subscribe("q", 1, nil))
			must(t, p.Publish("q", 1, false, "kept"))
			next(t, live)
		}
	}
	b.Close()
	if !b.drained {
		t.Errorf("the server no longer says %q, or did not get done", storeCloses)
	}
	b = start(t, Options{Dir: dir})
	_, in, err := dial(t, b, "dev", "", "", false)
	if err != nil {
		t.Fatal(err)
	}
	if g := next(t, in); g.payload != "kept" {
		t.Errorf("queued message: %+v", g)
	}
}

// TestRetainedAtOnce subscribes as soon as a broker has started and is sent every
// message that was retained before.
func TestRetainedAtOnce(t *testing.T) {
	const n = 300
	dir := t.TempDir()
	b := start(t, Options{Dir: dir})
	p, _, err := dial(t, b, "pub", "", "", true)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		must(t, p.Publish(fmt.Sprint("r/", i), 1, true, "up"))
	}
	b.Close()

	b = start(t, Options{Dir: dir})
	c := subscriber(t, b, "watch", true, "r/#")
	for seen := map[string]bool{}; len(seen) < n; {
		m, err := packets.ReadPacket(c)
		if err != nil {
			t.Fatalf("%d of %d messages came: %v", len(seen), n, err)
		}
		if m, ok := m.(*packets.PublishPacket); ok {
			seen[m.TopicName] = true
		}
	}
}

// TestResends_P56 takes a message and does not acknowledge it, as a client whose connection
// died does. It comes again on the next connection, over a restart as well.
func TestResends_P56(t *testing.T) {
	dir := t.TempDir()
	b := start(t, Options{Dir: dir})
	nc := subscriber(t, b, "dev", false, "q")
	if m, err := packets.ReadPacket(nc); err != nil {
		t.Fatalf("%v, %v, want SUBACK", m, err)
	}
	p, _, err := dial(t, b, "pub", "", "", true)
	if err != nil {
		t.Fatal(err)
	}
	must(t, p.Publish("q", 1, false, "job"))
	for payload := ""; payload != "job"; {
		m, err := packets.ReadPacket(nc)
		if err != nil {
			t.Fatal(err)
		}
		if m, ok := m.(*packets.PublishPacket); ok {
			payload = string(m.Payload)
		}
	}
	b.Close()

	b = start(t, Options{Dir: dir})
	_, in, err := dial(t, b, "dev", "", "", false)
	if err != nil {
		t.Fatal(err)
	}
	if g := next(t, in); g.payload != "job" {
		t.Errorf("got %+v", g)
	}
}

func TestLargePayloads_P54(t *testing.T) {
	b := start(t, Options{})
	s, in, err := dial(t, b, "s", "", "", true)
	if err != nil {
		t.Fatal(err)
	}
	must(t, s.Subscribe("t", 1, nil))
	p, _, err := dial(t, b, "p", "", "", true)
	if err != nil {
		t.Fatal(err)
	}
	must(t, p.Publish("t", 1, false, make([]byte, 200<<10)))
	if g := next(t, in); len(g.payload) != 200<<10 {
		t.Errorf("%d bytes came", len(g.payload))
	}
	p.Publish("t", 1, false, make([]byte, 400<<10)) // ends its connection, nobody else's
	for limit := time.Now().Add(10 * time.Second); p.IsConnectionOpen(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("a publisher of 400 KiB stays connected")
		}
	}
	must(t, s.Publish("t", 1, false, "still here"))
	if g := next(t, in); g.payload != "still here" {
		t.Errorf("got %.20q", g.payload)
	}
}

func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = Start(Options{Listen: l.Addr().String(), Dir: t.TempDir()})
	if !errors.Is(err, ErrPortTaken) || !strings.Contains(err.Error(), "mqtt.embedded.listen") {
		t.Errorf("got %v", err)
	}
	l.Close()
	start(t, Options{Listen: l.Addr().String()}) // and it works once the port is free
}

func TestStartRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	hash, err := HashPassword("pw")
	if err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, []byte("edge1:"+hash+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		opt  Options
		want string
	}{
		{Options{Listen: "0.0.0.0:0"}, "mqtt.embedded.users_file"},
		{Options{Listen: ":0"}, "mqtt.embedded.users_file"},
		{Options{Listen: "[::]:0"}, "mqtt.embedded.users_file"},
		{Options{Listen: "nonsense"}, "mqtt.embedded.listen"},
		{Options{Listen: "127.0.0.1:99999"}, "mqtt.embedded.listen"},
		{Options{Listen: "127.0.0.1:0", UsersFile: "/does/not/exist"}, "mqtt.embedded.users_file"},
		{Options{Listen: "127.0.0.1:0", UsersFile: users, Device: "edge1"}, "name of the device"},
		{Options{Listen: "127.0.0.1:0", UsersFile: users, Device: "edge 2"}, "device name"},
		{Options{Listen: "127.0.0.1:0", Dir: filepath.Join(file, "below")}, "broker:"},
	} {
		if c.opt.Dir == "" {
			c.opt.Dir = t.TempDir()
		}
		b, err := Start(c.opt)
		if err == nil {
			b.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q in it", c.opt, err, c.want)
		}
	}
}

func TestLogger(t *testing.T) {
	var lines []string
	l := &logger{tell: func(level, text string) { lines = append(lines, level+" "+text) }}
	l.Warnf("a %d", 1)
	l.Noticef("b")
	l.Fatalf("c %s", "d")
	l.Fatalf("e")
	if got := strings.Join(lines, "|"); got != "warn a 1|error c d|error e" || l.fatal() != "c d" {
		t.Errorf("told %q, fatal %q", got, l.fatal())
	}
}

// TestManySubscriptions_P190 makes more of QoS 1 than the server would grant by itself.
func TestManySubscriptions_P190(t *testing.T) {
	b := start(t, Options{})
	const clients, each = 26, 40
	for i := range clients {
		c, _, err := dial(t, b, fmt.Sprint("c", i), "", "", true)
		if err != nil {
			t.Fatal(err)
		}
		filters := map[string]byte{}
		for j := range each {
			filters[fmt.Sprintf("t/%d/%d", i, j)] = 1
		}
		tok := c.SubscribeMultiple(filters, nil)
		if !tok.WaitTimeout(30*time.Second) || tok.Error() != nil {
			t.Fatalf("client %d: %v", i, tok.Error())
		}
		for f, granted := range tok.(*mqtt.SubscribeToken).Result() {
			if granted != 1 {
				t.Fatalf("%d subscriptions are there, and %s is answered %#x", i*each, f, granted)
			}
		}
	}
}
