// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestTwoBrokers has the links at different brokers: prompts on the one of the house,
// documents and commands on that of the fleet. Without the first the device says that
// it is degraded, to the second.
func TestTwoBrokers(t *testing.T) {
	house, fleet := newEmbedded(t), newMosquitto(t, "allow_anonymous true")
	s, err := New(Config{Device: "edge1", StateDir: t.TempDir(), State: StateOnline, Policy: Policy{Anonymous: []string{"verify"}}}, &fake{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if err := s.Connect(quick(fleet.url()), quick(house.url())); err != nil {
		t.Fatal(err)
	}
	here, there := listen(t, quick(house.url()), "#"), listen(t, quick(fleet.url()), "#")
	state := func() string {
		ms := there.on("windhover/v1/edge1/status")
		var st Status
		if len(ms) == 0 || json.Unmarshal(ms[len(ms)-1].Payload(), &st) != nil {
			return ""
		}
		return st.State
	}
	eventually(t, "online", func() bool { return state() == StateOnline })
	here.publish("windhover/v1/edge1/req/me/generate", false, `{"id":"r","prompt":"x"}`)
	there.publish("windhover/v1/edge1/cmd/verify/me/j", false, `{}`)
	there.publish("windhover/v1/edge1/req/me/generate", false, `{"id":"nobody","prompt":"x"}`)
	here.publish("windhover/v1/edge1/cmd/verify/me/nobody", false, `{}`)
	eventually(t, "the answer", func() bool { return len(here.on("windhover/v1/edge1/res/me/r")) > 2 })
	eventually(t, "the record", func() bool {
		ms := there.on("windhover/v1/edge1/job/me/j")
		return len(ms) > 0 && strings.Contains(string(ms[len(ms)-1].Payload()), JobSucceeded)
	})
	house.stop()
	eventually(t, "degraded", func() bool { return state() == StateDegraded })
	house.start()
	eventually(t, "online again", func() bool { return state() == StateOnline })
	for _, l := range []*listener{here, there} {
		l.mu.Lock()
		for _, m := range l.in {
			ofData := strings.Contains(m.Topic(), "/res/") || strings.HasSuffix(m.Topic(), "/stats")
			asked := strings.Contains(m.Topic(), "/req/") || strings.Contains(m.Topic(), "/cmd/")
			if !asked && ofData != (l == here) || strings.Contains(m.Topic(), "/nobody") && !asked {
				t.Errorf("%s went to the wrong broker", m.Topic())
			}
		}
		l.mu.Unlock()
	}
}
