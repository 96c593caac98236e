// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"sync"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// Monitor watches the documents of many devices over one connection, and publishes
// retained ones. Of each topic it keeps what came last, so that who looks late misses
// versions in between and never the newest. It reconnects by itself; the broker then
// sends everything that is retained again.
type Monitor struct {
	link *link
	stop context.CancelFunc
	done chan struct{}

	mu     sync.Mutex // guards what follows
	news   map[string][]byte
	order  []string          // topics of news, in the order in which they first came
	wanted map[string][]byte // to be retained
}

// maxTopics bounds what a Monitor keeps between two looks.
const maxTopics = 1 << 18

// DialMonitor connects and subscribes to filters; an error is that of the first try.
func DialMonitor(ctx context.Context, ep Endpoint, filters []string) (*Monitor, error) {
	m := &Monitor{done: make(chan struct{}), news: map[string][]byte{}, wanted: map[string][]byte{}}
	m.link = &link{
		name: "monitor", endpoint: ep, clientID: "windhover-" + newID(), clean: true, filters: filters,
		box: newOutbox(time.Now), handle: m.receive,
	}
	if err := startLink(ctx, m.link, m.again, &m.stop, m.done); err != nil {
		return nil, err
	}
	return m, nil
}

// Close disconnects.
func (m *Monitor) Close() {
	m.stop()
	<-m.done
}

// Connected says whether the broker is there now.
func (m *Monitor) Connected() bool { return m.link.connected.Load() }

// receive is the MQTT callback.
func (m *Monitor) receive(in mqtt.Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	topic := in.Topic()
	if _, waits := m.news[topic]; !waits {
		if len(m.order) >= maxTopics {
			return
		}
		m.order = append(m.order, topic)
	}
	m.news[topic] = in.Payload()
}

// Take hands over what came since it was last called: of each topic the last message.
func (m *Monitor) Take(on func(topic string, payload []byte)) {
	m.mu.Lock()
	news, order := m.news, m.order
	m.news, m.order = map[string][]byte{}, nil
	m.mu.Unlock()
	for _, topic := range order {
		on(topic, news[topic])
	}
}

// Publish retains a document. It goes out again at each connection, the last one of a
// topic. That a broker has acknowledged it says nothing of its having been let through:
// subscribe to the topic, and see whether it comes back.
func (m *Monitor) Publish(topic string, payload []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wanted[topic] = payload
	m.send(topic, payload)
}

func (m *Monitor) send(topic string, payload []byte) {
	m.link.box.put(&message{topic: topic, payload: payload, qos: 1, retain: true, key: true})
}

// again sends everything once more on a new connection: the one before may have been
// lost with it, or the broker with what it retained.
func (m *Monitor) again() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for topic, payload := range m.wanted {
		m.send(topic, payload)
	}
}
