// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/eclipse/paho.mqtt.golang/packets"
)

// conn is one connection, from its dialling to its loss.
type conn struct {
	client mqtt.Client
	acks   chan flying
	lost   chan struct{} // closed when the connection is gone
	files  string        // what the files of the endpoint held, see Endpoint.files

	mu   sync.Mutex
	nc   net.Conn
	err  error
	left chan struct{} // closed when the goodbye is said; nil: none is
}

type flying struct {
	m     *message
	token mqtt.Token
}

// fail closes the connection for the first reason given.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	close(c.lost)
	if c.nc != nil {
		_ = c.nc.Close() // the library notices and winds down
	}
}

// leave ends the connection with a DISCONNECT, so that the broker publishes no will.
func (c *conn) leave(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err, c.left = err, make(chan struct{})
	close(c.lost)
	c.mu.Unlock()
	c.client.Disconnect(disconnectMS)
	close(c.left)
}

// settle waits for a goodbye that is being said.
func (c *conn) settle() {
	c.mu.Lock()
	left := c.left
	c.mu.Unlock()
	if left != nil {
		<-left
	}
}

func (c *conn) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// finish waits for a token with a limit.
func finish(t mqtt.Token, limit time.Duration) error {
	if !t.WaitTimeout(limit) {
		return fmt.Errorf("no answer within %v", limit)
	}
	return t.Error()
}

// ask subscribes to filters with their QoS, and returns those that the broker denies.
func ask(c *conn, want map[string]byte) (denied []string, err error) {
	if len(want) == 0 {
		return nil, nil
	}
	t := c.client.SubscribeMultiple(want, nil)
	if err := finish(t, subscribeTimeout); err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	if st, ok := t.(*mqtt.SubscribeToken); ok {
		for f, q := range st.Result() {
			if q > 2 {
				denied = append(denied, f)
			}
		}
	}
	slices.Sort(denied)
	return denied, nil
}

// noStore is the MQTT library's store with room for nothing: what is in flight lives
// in the outbox, bounded and in order, and commands that came in live in the journal.
type noStore struct{}

func (noStore) Open() {}

func (noStore) Put(string, packets.ControlPacket) {}

func (noStore) Get(string) packets.ControlPacket { return nil }

func (noStore) All() []string { return nil }

func (noStore) Del(string) {}

func (noStore) Close() {}

func (noStore) Reset() {}
