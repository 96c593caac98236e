// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"windhover/appliance/rollout"
	"windhover/control"
	"windhover/internal/testcut"
)

// A version that takes the daemon down while it is tried is taken back at the second
// start, by itself and for good: it is not downloaded again, and the floor stays.
func TestCrashLoopWhileObserved(t *testing.T) {
	s := newStage(t)
	b := newCutBox(t, s.publisher, s.has1)
	b.ear.Publish(control.GroupDesired("all"), s.document(2, s.two, 600))
	one, two := []string{s.one.SHA256.String()}, []string{s.two.SHA256.String()}
	for _, boots := range []int{2, 1} {
		p := b.start(testcut.Cut{})
		if !b.online(p) || !b.until("the version on trial", p, func() bool {
			return b.reported.Rev == 2 && len(b.reported.Models) == 1 && b.reported.Models[0].Phase == string(rollout.Observe)
		}) {
			t.Fatal("the box ends by itself")
		}
		s.answers(b, p, two)
		p.Signal(syscall.SIGKILL)
		if _, err := p.Wait(); err != nil {
			t.Fatal(err)
		}
		if m := b.remembered().Models["m"]; !m.Tentative || m.BootsLeft != boots {
			t.Fatalf("remembered %+v, want %d boots", m, boots)
		}
		b.reported = control.Reported{}
	}
	s.tookBack(t, b, one, control.HealthCheckFailed)
}

// So is one that does not get as far as answering, at the fourth.
func TestCrashLoopWhileLoaded(t *testing.T) {
	s := newStage(t)
	b := newCutBox(t, s.publisher, s.has1)
	b.ear.Publish(control.GroupDesired("all"), s.document(2, s.two, 600))
	for range 3 {
		p := b.start(testcut.Cut{At: 1, Kind: testcut.Before, Only: b.findsGood})
		if ws, err := p.Wait(); err != nil || !ws.Signaled() || p.Cut() == "" {
			t.Fatalf("the box ends by itself: %v, %v", ws, err)
		}
	}
	if m := b.remembered().Models["m"]; m.Tentative || m.Update == nil || m.Update.Tries != 3 {
		t.Fatalf("remembered %+v", m)
	}
	s.tookBack(t, b, []string{s.one.SHA256.String()}, control.LoadFailed)
}

// findsGood says whether a change puts a version on trial: it was loaded and has answered.
func (b *cutBox) findsGood(change string) bool {
	dir, found := strings.CutSuffix(strings.TrimPrefix(change, "rename "), "/active.json")
	if !found {
		return false
	}
	data, err := os.ReadFile(filepath.Join(dir, ".windhover-active.json.tmp"))
	return err == nil && bytes.Contains(data, []byte(`"tentative": true`))
}

// tookBack starts a box twice more: the older version serves, the fleet is told why, and
// what failed is left alone.
func (s *stage) tookBack(t *testing.T, b *cutBox, older []string, why control.Code) {
	t.Helper()
	asked := 0
	for range 2 {
		p := b.start(testcut.Cut{})
		if !b.online(p) || !b.until("the version was taken back", p, func() bool { return nowRefused(2)(b) }) {
			t.Fatal("the box ends by itself")
		}
		s.answers(b, p, older)
		if asked == 0 {
			if m := b.reported.Models[0]; !errors.Is(m.Error, why) || m.Serves != s.one.Version {
				t.Errorf("reported %+v: %v", m, m.Error)
			}
			asked = int(s.asked.Load())
		}
		b.stop(p)
		b.reported = control.Reported{}
	}
	if now := int(s.asked.Load()); now != asked {
		t.Errorf("%d more requests for a version that was taken back", now-asked)
	}
	state := b.remembered()
	if m := state.Models["m"]; m.Tentative || m.Update != nil || m.Current.SHA256.String() != older[0] || state.Memory.Floors["m"] != 1 {
		t.Errorf("remembered %+v, floors %v", m, state.Memory.Floors)
	}
	if bad := b.whole(); bad != "" {
		t.Error(bad)
	}
}
