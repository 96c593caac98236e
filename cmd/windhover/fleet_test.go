// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"windhover/control"
	"windhover/control/broker"
	"windhover/control/fleet"
	"windhover/control/ota"
	"windhover/vqf/seal"
)

// somewhere is a fleet of three on a real broker, and a directory with a key and a
// document. The devices have whatever document reaches them, but version 1.99.0
// does not load.
func somewhere(t *testing.T) (url, dir string) {
	t.Helper()
	b, err := broker.Start(broker.Options{Listen: "127.0.0.1:0", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	url, dir = "mqtt://"+b.Addr(), t.TempDir()
	if _, err := seal.NewFleetPair(filepath.Join(dir, "works")); err != nil {
		t.Fatal(err)
	}
	m, err := control.DialMonitor(t.Context(), control.Endpoint{URL: url}, []string{control.GroupDesired("canary")})
	if err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); <-stopped; m.Close() })
	answerAs(t, m, nil)
	go func() {
		defer close(stopped)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				m.Take(func(_ string, payload []byte) { answerAs(t, m, payload) })
			}
		}
	}()
	return url, dir
}

// answerAs lets the three devices answer a document, nil for none.
func answerAs(t *testing.T, m *control.Monitor, envelope []byte) {
	d := &ota.Desired{Target: ota.Target{Group: "canary"}}
	if envelope != nil {
		e, err := ota.ParseEnvelope(envelope, ota.MaxDocument)
		if err != nil {
			t.Error(err)
			return
		}
		if d, err = ota.ParseDesired(e.Payload); err != nil {
			t.Error(err)
			return
		}
	}
	for _, name := range []string{"edge1", "edge2", "edge3"} {
		r := control.Reported{V: 1, Rev: d.Rev, Target: d.Target.String(), Groups: []string{"canary"}, Status: control.DesiredCurrent}
		for _, w := range d.Models {
			is := control.ReportedModel{Name: w.Name, Version: w.Version, Release: w.Release, SHA256: w.SHA256.String(), Status: control.JobSucceeded}
			if w.Version == "1.99.0" {
				r.Status, is.Error = control.DesiredFailed, control.Errorf(control.LoadFailed, "it does not load")
			}
			r.Models = append(r.Models, is)
		}
		if !fleet.Reached(d.Rollout.Salt, name, d.Rollout.Percent) {
			r.Status, r.Models = control.DesiredHeld, nil
		}
		status, err1 := json.Marshal(control.Status{V: 1, State: control.StateOnline, Session: 1})
		reported, err2 := json.Marshal(r)
		if err := errors.Join(err1, err2); err != nil {
			t.Error(err)
			return
		}
		topics := control.Topics{Device: name}
		m.Publish(topics.Status(), status)
		m.Publish(topics.Reported(), reported)
	}
}

// wish writes a document that asks for a version.
func wish(t *testing.T, dir, version string, release int64) string {
	t.Helper()
	d := &ota.Desired{
		V: 1, Rev: 1, IssuedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour), Target: ota.Target{Group: "canary"}, Keep: 2,
		Models: []ota.Model{{
			Name: "m", Version: version, Release: release, URLs: []string{"https://cdn.example/m.vqf"}, Size: 9000, SHA256: ota.Digest{byte(release)},
			Index: ota.IndexRef{URL: "https://cdn.example/m.vqf.index", SHA256: ota.Digest{1, byte(release)}, Block: 4096},
		}},
	}
	path := filepath.Join(dir, version+".json")
	if err := os.WriteFile(path, d.Encode(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// windhover runs the program in this process.
func windhover(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := newRoot()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

// A release goes through, the next one does not and is taken back, and both are seen.
func TestFleetRollout(t *testing.T) {
	url, dir := somewhere(t)
	common := []string{"--broker", url, "--key", filepath.Join(dir, "works.fleet.key"), "--state", filepath.Join(dir, "rollout.json")}
	roll := func(args ...string) (string, string, error) {
		return windhover(t, append(append([]string{"fleet", "rollout"}, args...), common...)...)
	}
	good := wish(t, dir, "1.1.0", 11)
	out, _, err := roll(good, "--stages", "1,50,100")
	if err != nil || !strings.Contains(out, "rolled out to group/canary: 3 of 3 devices, document 3") || !strings.Contains(out, "100 %, document 3: 3 of 3 done") {
		t.Fatalf("%v:\n%s", err, out)
	}
	if again, _, err := roll(good); err != nil || !strings.Contains(again, "document 3") {
		t.Errorf("the same document again: %v:\n%s", err, again)
	}
	out, _, err = roll(wish(t, dir, "1.99.0", 12), "--stages", "100", "--json")
	if err == nil || !strings.Contains(err.Error(), "taken back") || !strings.Contains(err.Error(), "load_failed") {
		t.Errorf("a bad release ends with %v", err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var last fleet.View
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatal(err)
	}
	if last.Phase != fleet.Aborted || last.Rev != 5 || len(last.Failures) != 1 || len(last.Failures[0].Devices) != 3 || last.Stages[len(last.Stages)-1].OK != 3 {
		t.Errorf("it ends as %+v", last)
	}
	if _, _, err := roll(filepath.Join(dir, "1.99.0.json")); !errors.Is(err, control.RollbackRejected) {
		t.Errorf("what was taken back is rolled out again: %v", err)
	}
	if _, _, err := roll(good, "--abort"); !isUsage(err) {
		t.Errorf("there is nothing to take back, and it says %v", err)
	}
	out, _, err = windhover(t, "fleet", "status", "--broker", url, "--group", "canary")
	if err != nil || !strings.Contains(out, "3 devices: 3 current") || !strings.Contains(out, "m@1.1.0") {
		t.Errorf("%v:\n%s", err, out)
	}
	out, _, err = windhover(t, "fleet", "status", "--broker", url, "--json")
	var devices []fleet.Device
	if err != nil || json.Unmarshal([]byte(out), &devices) != nil || len(devices) != 3 || devices[0].Reported.Rev != 5 {
		t.Errorf("%v: %s", err, out)
	}
}

func TestFleetRolloutUsage(t *testing.T) {
	dir := t.TempDir()
	if _, err := seal.NewFleetPair(filepath.Join(dir, "works")); err != nil {
		t.Fatal(err)
	}
	key, doc := filepath.Join(dir, "works.fleet.key"), wish(t, dir, "1.1.0", 11)
	for name, args := range map[string][]string{
		"no key":               {doc},
		"no document":          {"--key", key},
		"success of nothing":   {doc, "--key", key, "--success", "0"},
		"failure of too much":  {doc, "--key", key, "--failure", "101"},
		"least of nobody":      {doc, "--key", key, "--least", "0"},
		"hold before it":       {doc, "--key", key, "--hold", "-1s"},
		"wait before it":       {doc, "--key", key, "--wait", "-1s"},
		"state is the key":     {doc, "--key", key, "--state", key},
		"plaintext to another": {doc, "--key", key, "--broker", "mqtt://192.0.2.1"},
	} {
		if _, _, err := windhover(t, append([]string{"fleet", "rollout", "--broker", "mqtt://127.0.0.1:1"}, args...)...); !isUsage(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := windhover(t, "fleet", "rollout", "--broker", "mqtt://127.0.0.1:1", "--key", key, key); err == nil || isUsage(err) {
		t.Errorf("a key is rolled out: %v", err)
	}
	if _, _, err := windhover(t, "fleet", "rollout", "--broker", "mqtt://127.0.0.1:1", "--wait", "0", "--key", key, doc); err == nil {
		t.Error("there is no broker, and nobody says so")
	} else if exit, _ := classify(err); exit != exitUnreachable {
		t.Errorf("without a broker: exit %d: %v", exit, err)
	}
}

// The table of a terminal stands in one place; without one a line says what changed.
func TestRolloutScreen(t *testing.T) {
	v := fleet.View{Phase: fleet.Rolling, Target: "group/canary", Rev: 43, Members: 200, Stages: []fleet.Stage{
		{Percent: 1, Rev: 42, Ended: true, Count: fleet.Count{Due: 2, OK: 2}},
		{Percent: 10, Rev: 43, Count: fleet.Count{Due: 20, OK: 12, Failed: 1, Running: 3, Waiting: 4}},
		{Percent: 50, Count: fleet.Count{Due: 100}},
	}, Failures: []fleet.Failure{{Code: "health_check_failed", Devices: []string{"edge17"}}}}
	var out bytes.Buffer
	now := time.Unix(0, 0)
	cmd := newFleetRollout()
	r := &rolloutScreen{cmd: cmd, w: &out, now: func() time.Time { return now }, width: 60, live: true}
	r.show(v)
	first := out.String()
	if n := strings.Count(first, "\n"); n != r.drawn || n != 5 || !strings.Contains(first, "edge17") || strings.Contains(first, "\x1b") {
		t.Errorf("%d lines, drawn %d:\n%s", n, r.drawn, first)
	}
	for line := range strings.Lines(first) {
		if len([]rune(line)) > 60 {
			t.Errorf("a line is wider than the terminal: %q", line)
		}
	}
	out.Reset()
	if r.show(v); !strings.HasPrefix(out.String(), "\x1b[5A\x1b[J") {
		t.Errorf("the second table is drawn as %q", out.String())
	}

	out.Reset()
	r = &rolloutScreen{cmd: cmd, w: &out, now: func() time.Time { return now }}
	r.show(v)
	v.Stages[1].OK = 13
	r.show(v) // too soon
	now = now.Add(lineEvery)
	v.Stages[1].OK = 14
	r.show(v)
	v.Stages[1].OK = 15
	r.show(v)
	r.end()
	want := "10 %, document 43: 12 of 20 done, 1 failed, 3 under way, 4 waiting, 0 away; health_check_failed: 1 (edge17)\n"
	want += strings.Replace(want, "12 of", "14 of", 1) + strings.Replace(want, "12 of", "15 of", 1)
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

// Two programs do not work on one roll-out. What a killed one leaves locks nobody out.
func TestFleetRolloutLock_P194(t *testing.T) {
	url, dir := somewhere(t)
	state := filepath.Join(dir, "rollout.json")
	roll := func() (string, error) {
		out, _, err := windhover(t, "fleet", "rollout", wish(t, dir, "1.1.0", 11), "--broker", url, "--key", filepath.Join(dir, "works.fleet.key"), "--state", state, "--stages", "100")
		return out, err
	}
	lock, err := lockRollout(state)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := roll(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d works on", os.Getpid())) {
		t.Errorf("a second program says %v", err)
	}
	if err := lock.release(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(state+".lock", []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := roll(); err != nil || !strings.Contains(out, "3 of 3 devices") {
		t.Errorf("after one that was killed: %v:\n%s", err, out)
	}
	if _, err := os.Stat(state + ".lock"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock is left behind: %v", err)
	}
}

// told calls do when what is written to it has a word in it.
type told struct {
	word string
	do   func()
}

func (w *told) Write(p []byte) (int, error) {
	if w.do != nil && bytes.Contains(p, []byte(w.word)) {
		w.do()
		w.do = nil
	}
	return len(p), nil
}

// A broker that is not there when the roll-out begins is waited for, which is said.
func TestFleetRolloutWaitsForTheBroker_P193(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr, dir := l.Addr().String(), t.TempDir()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := seal.NewFleetPair(filepath.Join(dir, "works")); err != nil {
		t.Fatal(err)
	}
	began := false
	cmd := newRoot()
	// Nobody is there to answer: the program gives up by its patience, after it has published.
	cmd.SetArgs([]string{"fleet", "rollout", wish(t, dir, "1.1.0", 11), "--broker", "mqtt://" + addr, "--key", filepath.Join(dir, "works.fleet.key"),
		"--state", filepath.Join(dir, "rollout.json"), "--patience", "100ms"})
	cmd.SetOut(io.Discard)
	cmd.SetErr(&told{"trying again for 5m0s", func() {
		b, err := broker.Start(broker.Options{Listen: addr, Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err) // this is the test's goroutine
		}
		t.Cleanup(b.Close)
		began = true
	}})
	if err := cmd.ExecuteContext(t.Context()); !began || err == nil || !strings.Contains(err.Error(), "does not come to an end") {
		t.Errorf("the broker was waited for: %v; it ends with %v", began, err)
	}
}
