// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/eclipse/paho.mqtt.golang/packets"
)

// scripted is a broker that does as MQTT says, except where on takes a packet for
// itself: then it returns true.
type scripted struct {
	url   string
	conns atomic.Int32
	gone  atomic.Int32 // connections that ended
	on    func(n int32, nc net.Conn, p packets.ControlPacket) bool

	mu  sync.Mutex
	log []string // what came: "1 CONNECT", "1 PUBLISH payload"
}

func newScripted(t *testing.T, on func(n int32, nc net.Conn, p packets.ControlPacket) bool) *scripted {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &scripted{url: "mqtt://" + l.Addr().String(), on: on}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, nc)
			mu.Unlock()
			wg.Go(func() { b.talk(b.conns.Add(1), nc) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, nc := range open {
			nc.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return b
}

func (b *scripted) talk(n int32, nc net.Conn) {
	defer b.gone.Add(1)
	defer nc.Close()
	for {
		p, err := packets.ReadPacket(nc)
		if err != nil {
			return
		}
		b.note(n, p)
		if b.on != nil && b.on(n, nc, p) {
			continue
		}
		switch p := p.(type) {
		case *packets.ConnectPacket:
			err = packets.NewControlPacket(packets.Connack).Write(nc)
		case *packets.SubscribePacket:
			ack := packets.NewControlPacket(packets.Suback).(*packets.SubackPacket)
			ack.MessageID, ack.ReturnCodes = p.MessageID, p.Qoss
			err = ack.Write(nc)
		case *packets.PublishPacket:
			if p.Qos == 1 {
				ack := packets.NewControlPacket(packets.Puback).(*packets.PubackPacket)
				ack.MessageID = p.MessageID
				err = ack.Write(nc)
			}
		case *packets.PingreqPacket:
			err = packets.NewControlPacket(packets.Pingresp).Write(nc)
		}
		if err != nil {
			return
		}
	}
}

func (b *scripted) note(n int32, p packets.ControlPacket) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch p := p.(type) {
	case *packets.ConnectPacket:
		b.log = append(b.log, fmt.Sprintf("%d CONNECT %s", n, p.Password))
	case *packets.PublishPacket:
		b.log = append(b.log, fmt.Sprintf("%d PUBLISH %.40s", n, p.Payload))
	case *packets.SubscribePacket:
		b.log = append(b.log, fmt.Sprintf("%d SUBSCRIBE %s", n, strings.Join(p.Topics, " ")))
	case *packets.PubackPacket:
		b.log = append(b.log, fmt.Sprintf("%d PUBACK %d", n, p.MessageID))
	case *packets.DisconnectPacket:
		b.log = append(b.log, fmt.Sprintf("%d DISCONNECT", n))
	}
}

// count returns how many lines of the log hold text.
func (b *scripted) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, l := range b.log {
		if strings.Contains(l, text) {
			n++
		}
	}
	return n
}

// runLink runs a link of its own until the test ends.
func runLink(t *testing.T, ep Endpoint, change func(*link)) *link {
	t.Helper()
	l := &link{name: "data", endpoint: ep, clientID: "x", clean: true, box: newOutbox(time.Now),
		handle: func(mqtt.Message) {}, onUp: func() {}, onTry: func(error) {}, onDown: func(error) {}}
	if change != nil {
		change(l)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); l.run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return l
}
