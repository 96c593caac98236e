// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"windhover/control"
	"windhover/control/broker"
	"windhover/control/fleet"
	"windhover/control/ota"
)

// A fleet in one process, on a real broker and a real web server, gets release 13, then
// 14, which is far too slow on half of the boards. The first percent has none of these
// boards; at 10 % the roll-out meets them, is taken back, and every device answers with
// release 13 again: those that went back by themselves, those that had committed 14,
// and those that were never reached. The program that rolls out is cut off in the
// middle. Then 15 goes through to all.
//
// WINDHOVER_FLEET=200 runs it with as many devices; docs/FLEET.md has its figures.
func TestSimulation(t *testing.T) {
	n := 24
	if text := os.Getenv("WINDHOVER_FLEET"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 {
			t.Fatalf("WINDHOVER_FLEET=%s is no number of devices", text)
		}
	}
	t.Run("embedded", func(t *testing.T) {
		b, err := broker.Start(broker.Options{Listen: "127.0.0.1:0", Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		simulate(t, "mqtt://"+b.Addr(), n)
	})
	t.Run("mosquitto", func(t *testing.T) { simulate(t, mosquitto(t), n) })
}

// sim is a fleet with its surroundings.
type sim struct {
	t      *testing.T
	url    string
	boxes  []*simBox
	board  *control.Monitor
	roster *fleet.Roster
	pub    publisher
	served atomic.Int64 // bytes of the web server
	stored []byte       // the state of the roll-out, as a file would have it
}

func simulate(t *testing.T, url string, n int) {
	s := newSim(t, url, n)
	size := 256 << 10
	good := s.pub.put(t, simModel{Release: 13}, size)
	s.rollout(good, []float64{100}, fleet.Done)
	s.allServe(13)

	bad := s.pub.put(t, simModel{Release: 14, BadOn: "b"}, size)
	s.cutOff(bad)
	end := s.rollout(bad, fleet.DefaultStages, fleet.Aborted)
	tried, backs, committed := 0, 0, 0
	for _, b := range s.boxes {
		reached := fleet.Reached("s57", b.name, 10)
		b.mu.Lock()
		if b.tried[14] != reached {
			t.Errorf("%s tried the bad release: %v, and 10 %% reaches it: %v", b.name, b.tried[14], reached)
		}
		if b.tried[14] {
			tried++
		}
		backs += b.backs
		b.mu.Unlock()
		if reached && b.board == "a" && b.up.State().Memory.Floors["m"] >= 14 {
			committed++
		}
	}
	if tried == 0 || backs == 0 || committed == 0 || tried == n {
		t.Errorf("%d tried it, %d went back by themselves, %d had committed it: the simulation shows nothing", tried, backs, committed)
	}
	if end.Stage != 1 || len(end.Failed) == 0 || end.Failed[0].Code != control.HealthCheckFailed.Name {
		t.Errorf("it was taken back in stage %d: %s %+v", end.Stage, end.Reason, end.Failed)
	}
	s.allServe(13)

	s.rollout(s.pub.put(t, simModel{Release: 15}, size), fleet.DefaultStages, fleet.Done)
	s.allServe(15)
	if late := fleet.ViewOf(end, s.roster.Devices()); late.Members != n {
		t.Errorf("%d members at the end", late.Members)
	}
	var network, reused int64
	for _, b := range s.boxes {
		b.mu.Lock()
		network, reused = network+b.network, reused+b.reused
		b.mu.Unlock()
	}
	t.Logf("%d devices, %d connections, %d goroutines: %d tried the bad release, %d went back by themselves, %d had committed it; %.1f MB downloaded, %.1f MB reused, %.1f MB served",
		n, 2*n, runtime.NumGoroutine(), tried, backs, committed, float64(network)/1e6, float64(reused)/1e6, float64(s.served.Load())/1e6)
}

// newSim starts the web server and n boxes, and waits until all have reported. Boards
// alternate, but those of the first percent are all of the good kind.
func newSim(t *testing.T, url string, n int) *sim {
	t.Helper()
	s := &sim{t: t, url: url, roster: fleet.NewRoster(), pub: publisher{dir: t.TempDir()}}
	files := http.FileServer(http.Dir(s.pub.dir))
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		files.ServeHTTP(&meter{w, &s.served}, r)
	}))
	t.Cleanup(web.Close)
	s.pub.url = web.URL
	began := time.Now()
	dir := t.TempDir()
	s.boxes = make([]*simBox, n)
	for i := range s.boxes {
		name, board := fmt.Sprintf("edge%d", i), "a"
		if i%2 == 1 && !fleet.Reached("s57", name, 1) || i == 10 {
			board = "b"
		}
		s.boxes[i] = newSimBox(t, name, board, filepath.Join(dir, name), url)
	}
	t.Cleanup(func() {
		var wg sync.WaitGroup
		for _, b := range s.boxes {
			wg.Go(func() {
				if err := b.close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
	var err error
	if s.board, err = control.DialMonitor(t.Context(), control.Endpoint{URL: url}, fleet.Filters(canary)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.board.Close)
	s.await("all devices to report", func() bool { return len(s.roster.Members(canary)) == n })
	t.Logf("%d devices are there after %v", n, time.Since(began).Round(time.Millisecond))
	return s
}

// meter counts what is served.
type meter struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (m *meter) Write(p []byte) (int, error) {
	m.n.Add(int64(len(p)))
	return m.ResponseWriter.Write(p)
}

// await looks at what devices report until cond is true.
func (s *sim) await(what string, cond func() bool) {
	s.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(2 * time.Minute)
	for !cond() {
		select {
		case <-tick.C:
			s.board.Take(s.roster.Hear)
		case <-limit:
			s.t.Fatalf("waited two minutes for %s", what)
		}
	}
}

// start is what the command line does to begin, or to go on.
func (s *sim) start(wanted *ota.Desired, stages []float64) fleet.State {
	s.t.Helper()
	known := fleet.Known{Retained: s.roster.Desired(canary), Keys: role(s.t), Seen: s.roster.Seen(canary)}
	if s.stored != nil {
		is, err := fleet.ParseState(s.stored)
		if err != nil {
			s.t.Fatal(err)
		}
		known.Stored = &is
	}
	state, err := fleet.Start(wanted, known, stages, time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	return state
}

func (s *sim) controller(show func(fleet.View)) *fleet.Controller {
	return &fleet.Controller{
		Board: s.board, Roster: s.roster, Limits: fleet.DefaultLimits, Sign: sign, Patience: 3 * time.Minute, Show: show,
		Save: func(st fleet.State) error { s.stored = st.Encode(); return nil },
	}
}

// rollout rolls a document out and holds how that ends.
func (s *sim) rollout(wanted *ota.Desired, stages []float64, phase fleet.Phase) fleet.State {
	s.t.Helper()
	began := time.Now()
	var last fleet.View
	end, err := s.controller(func(v fleet.View) { last = v }).Run(s.t.Context(), s.start(wanted, stages))
	if err != nil || end.Phase != phase {
		s.t.Fatalf("it ends %s, %v: %+v", end.Phase, err, last)
	}
	s.t.Logf("release %d: %s after %v, document %d: %s", wanted.Models[0].Release, end.Phase, time.Since(began).Round(time.Millisecond), end.Rev, end.Reason)
	for _, st := range last.Stages {
		s.t.Logf("  %5v %% back %-5v due %3d done %3d failed %3d waiting %d away %d", st.Percent, st.Back, st.Due, st.OK, st.Failed, st.Open(), st.Away)
	}
	return end
}

// cutOff begins a roll-out and ends the program that does it after the first document.
func (s *sim) cutOff(wanted *ota.Desired) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	end, err := s.controller(func(fleet.View) { cancel() }).Run(ctx, s.start(wanted, fleet.DefaultStages))
	if !errors.Is(err, context.Canceled) || end.Phase != fleet.Rolling {
		s.t.Fatalf("it is cut off %s: %v", end.Phase, err)
	}
}

// allServe waits for those that a roll-out does not wait for, the last few percent, and
// asks every device over the broker.
func (s *sim) allServe(release int64) {
	s.t.Helper()
	s.await(fmt.Sprintf("all devices to serve release %d", release), func() bool {
		return !slices.ContainsFunc(s.boxes, func(b *simBox) bool { return b.release() != release })
	})
	want := fmt.Sprintf("release %d", release)
	for _, b := range s.boxes {
		c, err := control.DialClient(s.t.Context(), control.ClientConfig{Endpoint: control.Endpoint{URL: s.url}, Device: b.name, Name: "tester"})
		if err != nil {
			s.t.Fatal(err)
		}
		ask := control.NewRequest(control.OpPrompt)
		ask.Prompt = "which?"
		a, err := c.Send(s.t.Context(), ask, nil)
		c.Close()
		if err != nil || a.Text != want {
			s.t.Errorf("%s answers %+v, %v, want %q", b.name, a, err, want)
		}
	}
}

// mosquitto starts the real one. Where there is none the test is skipped, or fails under
// WINDHOVER_REQUIRE_MOSQUITTO=1.
func mosquitto(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("mosquitto")
	if err != nil {
		if _, err := os.Stat("/usr/sbin/mosquitto"); err != nil {
			if os.Getenv("WINDHOVER_REQUIRE_MOSQUITTO") == "1" {
				t.Fatal("mosquitto is not installed and WINDHOVER_REQUIRE_MOSQUITTO=1")
			}
			t.Skip("mosquitto is not installed: apt-get install mosquitto")
		}
		path = "/usr/sbin/mosquitto"
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(t.TempDir(), "mosquitto.conf")
	text := fmt.Sprintf("log_type error\nlog_dest stderr\nallow_anonymous true\nlistener %d 127.0.0.1\n", addr.Port)
	if os.Geteuid() == 0 {
		text = "user root\n" + text // it must read our files
	}
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-c", conf)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be gone
		_ = cmd.Wait()
	})
	for limit := time.Now().Add(10 * time.Second); ; {
		c, err := net.Dial("tcp", addr.String())
		if err == nil {
			_ = c.Close() // it only had to open
			return "mqtt://" + addr.String()
		}
		if time.Now().After(limit) {
			t.Fatalf("mosquitto does not listen: %v", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
