// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"windhover/appliance/rollout"
	"windhover/control"
	"windhover/internal/testclock"
	"windhover/internal/testcut"
)

const year = 365 * 24 * time.Hour

// startAt runs the box by a time of day of the test's own: every question of the daemon
// for it, also of the libraries in it, is answered by the clock.
func (b *cutBox) startAt(clock *testclock.Clock) *testcut.Process {
	b.t.Helper()
	stage, err := exec.LookPath(tracedCommand)
	if err != nil {
		b.t.Fatal(err)
	}
	args := b.args()
	program := filepath.Join(b.dir, filepath.Base(args[0]))
	if err := testcut.WithoutVDSO(args[0], program); err != nil {
		b.t.Fatal(err)
	}
	args[0] = program
	p, err := testcut.Start(testcut.Cut{Dir: b.state, Clock: clock}, stage, args, os.Environ(), b.log)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { p.Signal(syscall.SIGKILL); <-p.Done() })
	return p
}

// leaps are the steps of a clock between which everything has to work: it is set for
// the first time, is wrong by decades, and is put to and fro. The eight hours are what a
// daemon sees of a board that was suspended for a night.
var leaps = []time.Duration{57 * year, 20 * year, -20 * year, -5 * 24 * time.Hour, time.Hour, 8 * time.Hour, -time.Hour, time.Hour, -40 * year, 40 * year}

// The daemon begins in 1970, as a board without a battery does, and its clock leaps
// while requests, jobs, a dropped file and an update are under way: it answers, each job
// and the trial end, nothing that is said goes back, and it stops in order.
func TestClockLeaps(t *testing.T) {
	s := newStage(t)
	b := newCutBox(t, s.publisher, s.has1)
	var clock testclock.Clock
	clock.Set(time.Unix(100, 0))
	p := b.startAt(&clock)
	if !b.online(p) {
		t.Fatal("the box ends by itself")
	}
	if y := b.status.Since.Year(); y != 1970 {
		t.Fatalf("it began in %d: it asks another clock", y)
	}
	one, two := []string{s.one.SHA256.String()}, []string{s.two.SHA256.String()}
	s.answers(b, p, one)
	job := func(n int) {
		t.Helper()
		b.give("verify", fmt.Sprintf("j%d", n), `{"model":"m"}`)
		if !b.until("the end of a job", p, func() bool { return jobEnded(b) }) {
			t.Fatal("the box ends by itself")
		}
		for id, r := range b.jobs {
			if r.Status != control.JobSucceeded {
				t.Errorf("job %s ended as %s: %v", id, r.Status, r.Error)
			}
		}
		if len(b.jobs) != n+1 {
			t.Errorf("%d records after %d jobs", len(b.jobs), n+1)
		}
	}
	job(0)
	for i, by := range leaps {
		clock.Step(by)
		s.answers(b, p, one)
		job(i + 1)
		if i == len(leaps)/2 {
			b.dropAndTake(p)
		}
	}
	b.ear.Publish(control.GroupDesired("all"), s.document(2, s.two, 2))
	phase := func(which rollout.Phase) func() bool {
		return func() bool {
			return b.reported.Rev == 2 && len(b.reported.Models) == 1 && b.reported.Models[0].Phase == string(which)
		}
	}
	if !b.until("the version on trial", p, phase(rollout.Observe)) {
		t.Fatal("the box ends by itself")
	}
	begun := time.Now()
	for _, by := range []time.Duration{20 * year, -30 * year, 10 * year} {
		clock.Step(by)
		s.answers(b, p, two)
	}
	if !b.until("the end of the trial", p, func() bool { return nowCurrent(2)(b) }) {
		t.Fatal("the box ends by itself")
	}
	if took := time.Since(begun); took < time.Second {
		t.Errorf("the trial of 2 s took %v", took)
	}
	clock.Step(-50 * year)
	b.stop(p)
	again := b.startAt(&clock)
	if !b.online(again) {
		t.Fatal("the box ends by itself")
	}
	s.answers(b, again, two)
	b.stop(again)
	if bad := b.whole(); bad != "" {
		t.Error(bad)
	}
}

// dropAndTake puts a model into the drop directory, and takes it away when it serves.
func (b *cutBox) dropAndTake(p *testcut.Process) {
	b.t.Helper()
	file := filepath.Join(b.state, "drop", "dropped.vqf")
	put(b.t, file, modelBytes(b.t, 7, nil))
	marked := func() bool {
		_, err := os.Stat(file + ".ready")
		return err == nil
	}
	if !b.until("a dropped file serves", p, marked) {
		b.t.Fatal("the box ends by itself")
	}
	if err := os.Remove(file); err != nil {
		b.t.Fatal(err)
	}
	before, _ := b.ask(p)
	if !b.until("it goes, and the model before it is the default again", p, func() bool {
		sum, _ := b.ask(p)
		return sum != before && !marked()
	}) {
		b.t.Fatal("the box ends by itself")
	}
}

// The broker inside keeps what it has, and passes on what comes, whatever the clock does.
func TestClockLeapsInTheBroker(t *testing.T) {
	s := newStage(t)
	b := newCutBox(t, s.publisher, s.has1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(b.dir, "config.toml")
	data, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(data), fmt.Sprintf("url = %q\n", b.broker.URL()), "", 1)
	text = strings.Replace(text, "[http]", fmt.Sprintf("[mqtt.embedded]\nlisten = %q\n[anonymous]\nallow = [\"verify\"]\n[http]", addr), 1)
	text = strings.Replace(text, "broker_enforces_acl = true\n", "", 1)
	put(t, config, []byte(text))
	var clock testclock.Clock
	clock.Set(time.Unix(100, 0))
	p := b.startAt(&clock)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	endpoint := control.Endpoint{URL: "mqtt://" + addr}
	var c *control.Client
	b.until("the broker inside", p, func() bool {
		c, err = control.DialClient(ctx, control.ClientConfig{Endpoint: endpoint, Device: "box", Name: "me"})
		return err == nil
	})
	defer c.Close()
	zero := float32(0)
	ask := func(after time.Duration) {
		t.Helper()
		a, err := c.Send(ctx, &control.Request{Op: control.OpGenerate, Model: "m", Prompt: "hello", MaxTokens: 6, Temperature: &zero, Stream: true, StreamQoS: 1, FinalText: true, RepeatPenalty: 1}, nil)
		if err != nil || a.Text != s.text[s.one.SHA256.String()] {
			t.Fatalf("after a step of %v: %+v, %v", after, a, err)
		}
	}
	topics := control.Topics{Device: "box"}
	retained := func(after time.Duration, jobs int) {
		t.Helper()
		m, err := control.DialMonitor(ctx, endpoint, []string{topics.Status(), topics.Model("+"), topics.Job("+", "+")})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		seen := map[string]bool{}
		b.until("what is retained", p, func() bool {
			m.Take(func(topic string, payload []byte) { seen[topic] = len(payload) > 0 })
			n := 0
			for _, there := range seen {
				if there {
					n++
				}
			}
			return n == 2+jobs
		})
		if !seen[topics.Status()] || !seen[topics.Model("m")] {
			t.Errorf("after a step of %v: retained %v", after, seen)
		}
	}
	ask(0)
	for i, by := range leaps {
		clock.Step(by)
		ask(by)
		id := fmt.Sprintf("j%d", i)
		if r, err := c.Command(ctx, "verify", id, []byte(`{"model":"m"}`), nil); err != nil || r.Status != control.JobSucceeded {
			t.Fatalf("after a step of %v: job %+v, %v", by, r, err)
		}
		retained(by, i+1)
	}
	b.stop(p)
	clock.Step(-30 * year)
	p = b.startAt(&clock)
	b.until("the broker inside again", p, func() bool {
		again, err := control.DialClient(ctx, control.ClientConfig{Endpoint: endpoint, Device: "box", Name: "you"})
		if err == nil {
			again.Close()
		}
		return err == nil
	})
	retained(0, len(leaps))
	b.stop(p)
}
