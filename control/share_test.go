// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// TestGroupSharesRequests_P59 sends a stream of prompts to a group of three boxes on a
// broker with shared subscriptions: each is answered once, by the box that got it, and
// every box has its share.
func TestGroupSharesRequests_P59(t *testing.T) {
	const boxes, prompts = 3, 60
	m := newMosquitto(t, "allow_anonymous true")
	ep := quick(m.url())
	var runs [boxes]atomic.Int32
	for i := range boxes {
		s := newDevice(t, &fake{generate: counted(&runs[i])}, ep, func(c *Config) {
			c.Device, c.Groups, c.Share = fmt.Sprintf("box%d", i), []string{"farm"}, true
			c.Limits = Limits{Queue: 100, PerClient: 100}
		})
		eventually(t, "the box", func() bool { return s.Counters().Connected["data"] })
	}
	l := listen(t, ep, "windhover/v1/+/res/me/#")
	for i := range prompts {
		l.publish(GroupRequest("farm", "me", OpGenerate), false, fmt.Sprintf(`{"id":"r%d","prompt":"hello %d"}`, i, i))
	}
	ends := func() map[string][]string { // by id: the boxes that ended it
		l.mu.Lock()
		defer l.mu.Unlock()
		got := map[string][]string{}
		for _, m := range l.in {
			if r, err := DecodeReply(m.Payload()); err == nil && r.Terminal() {
				got[r.ID] = append(got[r.ID], strings.Split(m.Topic(), "/")[2])
			}
		}
		return got
	}
	eventually(t, "every answer", func() bool { return len(ends()) == prompts })
	var total int32
	for i := range boxes {
		n := runs[i].Load()
		total += n
		if n == 0 {
			t.Errorf("box%d has no share", i)
		}
	}
	for id, by := range ends() {
		if len(by) != 1 {
			t.Errorf("%s is answered by %v", id, by)
		}
	}
	if total != prompts {
		t.Errorf("%d runs for %d prompts", total, prompts)
	}
}

// TestGroupRequestRoutes_P60 holds what counts as a request to a group.
func TestGroupRequestRoutes_P60(t *testing.T) {
	g := newRig(t, &fake{}, func(c *Config) { c.Groups, c.Share = []string{"farm"}, true })
	for topic, want := range map[string]bool{
		"windhover/v1/_group/farm/req/me/chat":     true,
		"windhover/v1/_group/farm/req/me/chat/x":   false,
		"windhover/v1/_group/farm/cmd/verify/me/j": false,
		"windhover/v1/_group/Farm/req/me/chat":     false,
		"windhover/v1/_group/farm/req/m e/chat":    false,
		"windhover/v1/edge1/req/me/chat":           true,
	} {
		if _, ok := g.route(topic); ok != want {
			t.Errorf("%s: %v", topic, ok)
		}
	}
	if got := strings.Join(g.shared(), " "); got != "$share/farm/windhover/v1/_group/farm/req/+/+" {
		t.Errorf("filters %q", got)
	}
	g.request(inbound{topic: GroupRequest("farm", "me", OpCancel), payload: []byte(`{"id":"c","target":"r"}`)})
	if r := g.end("me", "c"); !errors.Is(r.Err, Unsupported) {
		t.Errorf("cancel to a group ends as %+v", r)
	}
	g.request(inbound{topic: GroupRequest("farm", "me", OpGenerate), payload: []byte(`{"id":"q","prompt":"x"}`)})
	if r := g.end("me", "q"); r.Done == nil {
		t.Errorf("a request to a group ends as %+v", r)
	}
	g.cfg.Share = false
	if _, ok := g.route("windhover/v1/_group/farm/req/me/chat"); ok || g.shared() != nil {
		t.Error("a box that does not share takes part")
	}
}

// TestDeniedGroup_P111 has brokers that do not let the device share the requests of a
// group, by an answer or by the end of the connection: its own requests come, and it
// does not connect over and over.
func TestDeniedGroup_P111(t *testing.T) {
	for name, c := range map[string]struct {
		deny        func(nc net.Conn, s *packets.SubscribePacket) bool
		connections int
		told        string
	}{
		"by an answer": {func(nc net.Conn, s *packets.SubscribePacket) bool {
			ack := packets.NewControlPacket(packets.Suback).(*packets.SubackPacket)
			ack.MessageID, ack.ReturnCodes = s.MessageID, []byte{0x80}
			return ack.Write(nc) == nil
		}, 1, "$share/farm/windhover/v1/_group/farm/req/+/+"},
		"by its end": {func(nc net.Conn, _ *packets.SubscribePacket) bool { nc.Close(); return true }, 2, "do without"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newScripted(t, func(_ int32, nc net.Conn, p packets.ControlPacket) bool {
				s, ok := p.(*packets.SubscribePacket)
				return ok && strings.HasPrefix(s.Topics[0], "$share/") && c.deny(nc, s)
			})
			n := &notices{}
			s := newDevice(t, &fake{}, quick(b.url), func(cfg *Config) {
				cfg.Groups, cfg.Share, cfg.Notify = []string{"farm"}, true, n.take
			})
			eventually(t, "both links", func() bool { k := s.Counters(); return k.Connected["control"] && k.Connected["data"] })
			eventually(t, "the operator to be told", func() bool { return strings.Contains(n.text(), c.told) })
			// The status of a device whose requests are heard passes on the other link.
			eventually(t, "online", func() bool { return b.count(`"state":"online"`) > 0 })
			if got := b.count("SUBSCRIBE windhover/v1/edge1/req/+/+"); got != c.connections {
				t.Errorf("%d connections for requests, want %d", got, c.connections)
			}
			if got := b.count("SUBSCRIBE $share"); got != 1 {
				t.Errorf("asked %d times", got)
			}
		})
	}
}

// TestCommandsWithoutAnID_P43 are jobs of their own, each time.
func TestCommandsWithoutAnID_P43(t *testing.T) {
	var mu sync.Mutex
	ids := map[string]bool{}
	g := newRig(t, &fake{runJob: func(_ context.Context, j Job, _ func(JobProgress)) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		ids[j.ID] = true
		return nil, nil
	}}, anyone)
	for range 2 {
		g.tell("me", "verify", "_", `{"model":"tiny"}`)
	}
	g.await("two jobs", func() bool { mu.Lock(); defer mu.Unlock(); return len(ids) == 2 })
	if ids["_"] {
		t.Error("a job has the name of no name")
	}
}
