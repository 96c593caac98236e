// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"testing"
	"time"
)

// A monitor sees the newest of each topic, and what it publishes is retained, also by a
// broker that was restarted without what it knew.
func TestMonitor(t *testing.T) {
	eachBroker(t, func(t *testing.T, b testBroker) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ep := Endpoint{URL: b.url(), RetryMin: 10 * time.Millisecond, RetryMax: 50 * time.Millisecond}
		topic := Topics{"edge1"}.Reported()
		m, err := DialMonitor(ctx, ep, []string{Topics{"+"}.Reported()})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		hears := func(m *Monitor, want string) {
			t.Helper()
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for last := ""; last != want; {
				select {
				case <-tick.C:
					m.Take(func(is string, payload []byte) {
						if is != topic {
							t.Errorf("heard of %s", is)
						}
						last = string(payload)
					})
				case <-ctx.Done():
					t.Fatalf("waited for %q, the last was %q", want, last)
				}
			}
		}
		m.Publish(topic, []byte("1"))
		m.Publish(topic, []byte("2"))
		hears(m, "2")
		late, err := DialMonitor(ctx, ep, []string{topic})
		if err != nil {
			t.Fatal(err)
		}
		defer late.Close()
		hears(late, "2")
		b.stop()
		b.start()
		hears(m, "2")
	})
}

// Between two looks the last message of a topic counts, in the order in which topics
// were first heard of.
func TestMonitorKeepsTheLast(t *testing.T) {
	m := &Monitor{news: map[string][]byte{}}
	for _, in := range [][2]string{{"a", "1"}, {"b", "1"}, {"a", "2"}} {
		m.receive(fakeMessage{topic: in[0], payload: []byte(in[1])})
	}
	var got string
	m.Take(func(topic string, payload []byte) { got += topic + string(payload) + " " })
	if got != "a2 b1 " {
		t.Errorf("heard %q", got)
	}
	m.Take(func(topic string, _ []byte) { t.Errorf("heard of %s twice", topic) })
}
