// SPDX-License-Identifier: Apache-2.0

package control

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/eclipse/paho.mqtt.golang/packets"
)

// The tests of this file are the known traps of MQTT client libraries, each against a
// broker that springs it. docs/DESIGN.md, "Traps of the MQTT library", names the test of
// each, also of those that stand elsewhere.

// TestTrapsHaveTests holds that the tests which the page names exist.
func TestTrapsHaveTests(t *testing.T) {
	doc, err := os.ReadFile("../docs/DESIGN.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(doc), "**Traps of the MQTT library.**")
	if !ok {
		t.Fatal("docs/DESIGN.md has no such table")
	}
	rest, _, _ = strings.Cut(rest, "\n**")
	rows := 0
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ---") || strings.HasPrefix(line, "| trap") {
			continue
		}
		rows++
		tests := regexp.MustCompile("`((?:\\w+/)*)(Test\\w+)`").FindAllStringSubmatch(line, -1)
		if len(tests) == 0 {
			t.Errorf("no test: %s", line)
		}
		for _, m := range tests {
			if !testExists(t, filepath.Join("..", cmp.Or(m[1], "control")), m[2]) {
				t.Errorf("%s%s does not exist", m[1], m[2])
			}
		}
	}
	if rows != 15 {
		t.Errorf("%d traps, want 15", rows)
	}
}

// testExists says whether a directory has a test of this name, with numbers or without.
func testExists(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	is := regexp.MustCompile(`(?m)^func ` + name + `(_P[0-9]+)*\(`)
	return slices.ContainsFunc(files, func(f string) bool {
		src, err := os.ReadFile(f)
		return err == nil && is.Match(src)
	})
}

// TestOrderIsKept sends many messages over a broker to a callback that only files them.
func TestOrderIsKept(t *testing.T) {
	eachBroker(t, func(t *testing.T, b testBroker) {
		const n = 500
		var mu sync.Mutex
		var got []string
		in := runLink(t, quick(b.url()), func(l *link) {
			l.clientID, l.filters = "reader", []string{"order"}
			l.handle = func(m mqtt.Message) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, string(m.Payload()))
			}
		})
		eventually(t, "the reader", in.connected.Load)
		out := runLink(t, quick(b.url()), func(l *link) { l.clientID = "writer" })
		for i := range n {
			out.box.put(&message{topic: "order", payload: fmt.Append(nil, i), qos: 1})
		}
		eventually(t, "all of them", func() bool { mu.Lock(); defer mu.Unlock(); return len(got) >= n })
		mu.Lock()
		defer mu.Unlock()
		for i, p := range got {
			if p != fmt.Sprint(i) {
				t.Fatalf("message %d is %s", i, p)
			}
		}
	})
}

// TestNothingIsLostWhileAway says things while there is no connection, QoS 0 as well,
// which the library would take and lose.
func TestNothingIsLostWhileAway(t *testing.T) {
	var up atomic.Bool
	b := newScripted(t, func(_ int32, nc net.Conn, p packets.ControlPacket) bool {
		if _, ok := p.(*packets.ConnectPacket); ok && !up.Load() {
			nc.Close()
			return true
		}
		return false
	})
	l := runLink(t, quick(b.url), nil)
	for i := range 10 {
		l.box.put(&message{topic: "t", payload: fmt.Appendf(nil, "m%d.", i), qos: byte(i % 2)})
	}
	eventually(t, "a failed try", func() bool { return b.conns.Load() > 1 })
	if b.count("PUBLISH") != 0 {
		t.Fatal("something was sent to nobody")
	}
	up.Store(true)
	eventually(t, "all ten", func() bool { return b.count("PUBLISH m") == 10 })
}

// TestUnacknowledgedComesAgain_P34 has connections that end between PUBLISH and PUBACK. The
// library calls such a message done, or resends it for ever; here it goes out on three
// connections, and what is behind it is not held up any longer.
func TestUnacknowledgedComesAgain_P34(t *testing.T) {
	b := newScripted(t, func(_ int32, nc net.Conn, p packets.ControlPacket) bool {
		if p, ok := p.(*packets.PublishPacket); ok && string(p.Payload) == "poison" {
			nc.Close()
			return true
		}
		return false
	})
	l := runLink(t, quick(b.url), nil)
	l.box.put(&message{topic: "t", payload: []byte("poison"), qos: 1})
	eventually(t, "the first loss", func() bool { return b.count("PUBLISH poison") > 0 })
	l.box.put(&message{topic: "t", payload: []byte("behind"), qos: 1})
	eventually(t, "what is behind it", func() bool {
		_, broken := l.box.lost()
		return b.count("PUBLISH behind") > 0 && broken == 1
	})
	if n := b.count("PUBLISH poison"); n != maxLosses {
		t.Errorf("it was sent %d times, want %d", n, maxLosses)
	}
}

// TestSubscribesOnEveryConnection loses the connection and sees both links subscribe
// again, and a subscription that is denied or not answered end its connection: each is
// tried once a connection and never in a loop.
func TestSubscribesOnEveryConnection(t *testing.T) {
	var denied atomic.Int32
	b := newScripted(t, func(n int32, nc net.Conn, p packets.ControlPacket) bool {
		s, ok := p.(*packets.SubscribePacket)
		if !ok {
			return false
		}
		switch n {
		case 1: // denied as the embedded broker denies
			denied.Add(1)
			ack := packets.NewControlPacket(packets.Suback).(*packets.SubackPacket)
			ack.MessageID, ack.ReturnCodes = s.MessageID, []byte{0x80}
			return ack.Write(nc) == nil
		case 2: // granted, then lost
			ack := packets.NewControlPacket(packets.Suback).(*packets.SubackPacket)
			ack.MessageID, ack.ReturnCodes = s.MessageID, s.Qoss
			_ = ack.Write(nc)
			nc.Close()
			return true
		}
		return false
	})
	var tries atomic.Int32
	l := runLink(t, quick(b.url), func(l *link) {
		l.filters = []string{"a/+"}
		l.onTry = func(err error) {
			if strings.Contains(err.Error(), "denies") {
				tries.Add(1)
			}
		}
	})
	eventually(t, "the third connection", func() bool { return b.count("3 SUBSCRIBE a/+") == 1 && l.connected.Load() })
	if denied.Load() != 1 || tries.Load() != 1 || b.count("1 SUBSCRIBE") != 1 {
		t.Errorf("%d denied, told of %d, in %d subscriptions", denied.Load(), tries.Load(), b.count("1 SUBSCRIBE"))
	}
}

// TestPausesBetweenTries bounds the pause, which the library lets grow to 10 minutes.
func TestPausesBetweenTries(t *testing.T) {
	l := &link{endpoint: Endpoint{URL: "mqtt://127.0.0.1"}}
	var got []string
	for p := l.pause(0); len(got) < 8; p = l.pause(p) {
		got = append(got, p.String())
	}
	if want := "500ms 1s 2s 4s 8s 16s 30s 30s"; strings.Join(got, " ") != want {
		t.Errorf("pauses %v, want %s", got, want)
	}
}

// TestDeadPeers connects to peers that take everything and say nothing, and that read
// nothing: both connections are given up and another client is made.
func TestDeadPeers(t *testing.T) {
	t.Run("silent", func(t *testing.T) {
		b := newScripted(t, func(_ int32, _ net.Conn, p packets.ControlPacket) bool {
			_, ping := p.(*packets.PingreqPacket)
			return ping
		})
		l := runLink(t, quick(b.url), func(l *link) { l.keepAlive = time.Second })
		eventually(t, "another connection", func() bool { return b.count("CONNECT") > 1 && l.ups.Load() > 1 })
	})
	t.Run("reads nothing", func(t *testing.T) {
		gate := make(chan struct{})
		b := newScripted(t, func(n int32, nc net.Conn, p packets.ControlPacket) bool {
			if _, ok := p.(*packets.PublishPacket); ok && n == 1 {
				<-gate
			}
			return false
		})
		defer close(gate)
		ep := quick(b.url)
		ep.WriteTimeout = 200 * time.Millisecond
		l := runLink(t, ep, nil)
		for range flightWindow {
			l.box.put(&message{topic: "t", payload: make([]byte, 256<<10), qos: 1}) // more than sockets hold
		}
		eventually(t, "another connection", func() bool { return b.count("2 PUBLISH") > 0 })
	})
}

// TestEachConnectionIsANewClient: a client of the library that is connected again goes on
// with the message ids of the one before, and takes late acknowledgements for its own.
func TestEachConnectionIsANewClient(t *testing.T) {
	var mu sync.Mutex
	ids := map[int32][]uint16{}
	b := newScripted(t, func(n int32, nc net.Conn, p packets.ControlPacket) bool {
		m, ok := p.(*packets.PublishPacket)
		if !ok {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		ids[n] = append(ids[n], m.MessageID)
		if n == 1 && len(ids[n]) == 3 {
			nc.Close() // none of them is acknowledged
		}
		return n == 1
	})
	l := runLink(t, quick(b.url), nil)
	for range 3 {
		l.box.put(&message{topic: "t", payload: []byte("m"), qos: 1})
	}
	eventually(t, "all of them on the second connection", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(ids[2]) == 3 && slices.Equal(ids[1], ids[2])
	})
	eventually(t, "their end", func() bool { a, b, c := l.box.depth(); return a+b+c == 0 })
}

// TestUnknownTopicIsAcknowledged: what nobody asked for, as an old subscription of the
// persistent session may bring it, would fill the broker's window for ever.
func TestUnknownTopicIsAcknowledged(t *testing.T) {
	b := newScripted(t, func(_ int32, nc net.Conn, p packets.ControlPacket) bool {
		if _, ok := p.(*packets.ConnectPacket); ok {
			for i, topic := range []string{"who/knows", "windhover/v1/edge1/cmd/what", "windhover/v1/other/cmd/verify/me/j"} {
				m := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
				m.Qos, m.TopicName, m.MessageID, m.Payload = 1, topic, uint16(70+i), []byte("{}")
				if i == 0 { // before the answer to CONNECT nothing may come
					_ = packets.NewControlPacket(packets.Connack).Write(nc)
				}
				_ = m.Write(nc)
			}
			return true
		}
		return false
	})
	newDevice(t, &fake{}, quick(b.url), nil)
	eventually(t, "six acknowledgements of two links", func() bool {
		return b.count("PUBACK 70") == 2 && b.count("PUBACK 71") == 2 && b.count("PUBACK 72") == 2
	})
}

// TestNoFileStore: the library's file store ends the process on a full disk.
func TestNoFileStore(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(f, "_test.go") && strings.Contains(string(src), "NewFileStore") {
			t.Errorf("%s uses it", f)
		}
	}
	o := (&link{endpoint: Endpoint{URL: "mqtt://127.0.0.1"}}).options(t.Context(), &conn{}, mustURL(t), "", "")
	if _, ok := o.Store.(noStore); !ok || !o.Order || o.AutoReconnect || o.ProtocolVersion != 4 {
		t.Errorf("options %+v", o)
	}
}

// TestCredentialsAreRenewed_P35 replaces the password of a connection that stands: it is
// left in an orderly way and made anew. A file that cannot be read changes nothing.
func TestCredentialsAreRenewed_P35(t *testing.T) {
	b := newScripted(t, nil)
	file := filepath.Join(t.TempDir(), "pw")
	write := func(pw string) {
		if err := os.WriteFile(file, []byte(pw), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	ep := quick(b.url)
	ep.Username, ep.PasswordFile = "edge1", file
	var reason atomic.Value
	l := runLink(t, ep, func(l *link) { l.onDown = func(err error) { reason.Store(err) } })
	eventually(t, "the first connection", func() bool { return b.count("1 CONNECT one") == 1 && l.connected.Load() })
	before := ep.files()
	if ep.renewed(before) {
		t.Error("nothing changed")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if ep.renewed(before) {
		t.Error("a missing file is no new password")
	}
	write("two\n")
	eventually(t, "the second connection", func() bool { return b.count("2 CONNECT two") == 1 && l.connected.Load() })
	if err, _ := reason.Load().(error); !errors.Is(err, errRenewed) || b.count("1 DISCONNECT") != 1 {
		t.Errorf("left because of %v, %d goodbyes", err, b.count("1 DISCONNECT"))
	}
}
