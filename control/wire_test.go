// SPDX-License-Identifier: Apache-2.0

package control

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// rawConnect makes an MQTT connection by hand.
func rawConnect(t *testing.T, url, id string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", strings.TrimPrefix(url, "mqtt://"))
	if err != nil {
		t.Fatal(err)
	}
	c := packets.NewControlPacket(packets.Connect).(*packets.ConnectPacket)
	c.ProtocolName, c.ProtocolVersion, c.CleanSession, c.ClientIdentifier = "MQTT", 4, true, id
	send(t, nc, c)
	if p, err := packets.ReadPacket(nc); err != nil || p.(*packets.ConnackPacket).ReturnCode != 0 {
		t.Fatalf("CONNECT: %v %v", p, err)
	}
	return nc
}

func send(t *testing.T, nc net.Conn, p packets.ControlPacket) {
	t.Helper()
	if err := p.Write(nc); err != nil {
		t.Fatal(err)
	}
}

// stuckReader subscribes and never reads again.
func stuckReader(t *testing.T, url, filter string) (stop func()) {
	t.Helper()
	nc := rawConnect(t, url, "stuck")
	if err := nc.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	s := packets.NewControlPacket(packets.Subscribe).(*packets.SubscribePacket)
	s.MessageID, s.Topics, s.Qoss = 1, []string{filter}, []byte{1}
	send(t, nc, s)
	if _, err := packets.ReadPacket(nc); err != nil {
		t.Fatal(err)
	}
	return func() { nc.Close() }
}

// deaf is a broker that accepts connections and subscriptions and acknowledges nothing.
type deaf struct {
	*scripted
	goodbyes atomic.Int32 // clients that said they go
}

func deafBroker(t *testing.T) *deaf {
	t.Helper()
	d := &deaf{}
	d.scripted = newScripted(t, func(_ int32, _ net.Conn, p packets.ControlPacket) bool {
		switch p.(type) {
		case *packets.PublishPacket:
			return true
		case *packets.DisconnectPacket:
			d.goodbyes.Add(1)
		}
		return false
	})
	return d
}

// fakeMessage is a message as the callback gets it.
type fakeMessage struct {
	topic    string
	payload  []byte
	retained bool
}

func (m fakeMessage) Duplicate() bool   { return false }
func (m fakeMessage) Qos() byte         { return 1 }
func (m fakeMessage) Retained() bool    { return m.retained }
func (m fakeMessage) Topic() string     { return m.topic }
func (m fakeMessage) MessageID() uint16 { return 1 }
func (m fakeMessage) Payload() []byte   { return m.payload }
func (m fakeMessage) Ack()              {}

// What comes while the device says goodbye is answered, and is no sign of a box that is
// behind: nobody reads any more.
func TestCallbackWhileStopping(t *testing.T) {
	var dropped atomic.Int32
	g := newRig(t, &fake{}, func(cfg *Config) {
		cfg.Notify = func(n Notice) {
			if n.Event == NoticeDropped {
				dropped.Add(1)
			}
		}
	})
	if err := g.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	on := g.receiver(linkData, g.requests, false)
	for range inboxSize + 2 {
		on(fakeMessage{topic: g.topics.Request("me", OpGenerate), payload: []byte(`{"id":"r","prompt":"x"}`)})
	}
	g.await("answers", func() bool { return len(g.replies("me", "r")) == inboxSize+2 })
	if e := g.replies("me", "r")[0].Err; e == nil || e.Code != ShuttingDown {
		t.Errorf("answer %+v", e)
	}
	if n, c := dropped.Load(), g.Counters(); n != 0 || c.Dropped != 0 {
		t.Errorf("%d told as dropped, %d counted", n, c.Dropped)
	}
}

// TestCallbackNeverBlocks floods the callback while the dispatcher is held up.
func TestCallbackNeverBlocks(t *testing.T) {
	gate := make(chan struct{})
	var once sync.Once
	open := func() { once.Do(func() { close(gate) }) }
	defer open()
	g := newRig(t, &fake{resolve: func(string) (ModelRef, error) {
		<-gate
		return ModelRef{Name: "tiny"}, nil
	}}, nil)
	on := g.receiver(linkData, g.requests, false)
	began := time.Now()
	for range inboxSize + 20 {
		on(fakeMessage{topic: g.topics.Request("me", OpGenerate), payload: []byte(`{"id":"r","prompt":"x"}`)})
	}
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("the callback took %v", d)
	}
	g.await("busy answers", func() bool { return len(g.replies("me", "r")) >= 18 })
	if e := g.replies("me", "r")[0].Err; e == nil || e.Code != QueueFull || e.RetryAfter <= 0 {
		t.Errorf("busy answer %+v", e)
	}
	if c := g.Counters(); c.Dropped < 18 || c.Drops[Drop{linkData, DropBehind}] != c.Dropped {
		t.Errorf("%d dropped: %v", c.Dropped, c.Drops)
	}
	open()
	g.await("the others to be answered", func() bool {
		rs := g.replies("me", "r")
		return rs[len(rs)-1].Type == TypeDone
	})
}
