// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"windhover/control"
)

// soaking is how many requests WINDHOVER_SOAK asks for (./check soak), else few.
func soaking(t *testing.T, few int) int {
	t.Helper()
	s := os.Getenv("WINDHOVER_SOAK")
	if s == "" {
		return few
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < few {
		t.Fatalf("WINDHOVER_SOAK=%q: a number of requests, %d or more", s, few)
	}
	return n
}

// footprint is what must not grow.
type footprint struct {
	heap, resident         int64
	goroutines, files, dir int
}

func (b *box) footprint(t *testing.T) footprint {
	t.Helper()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	f := footprint{heap: int64(m.HeapAlloc), resident: residentBytes(), goroutines: runtime.NumGoroutine(), files: len(open)}
	err = filepath.WalkDir(b.cfg.Paths.State, func(string, os.DirEntry, error) error { f.dir++; return nil })
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f footprint) String() string {
	return fmt.Sprintf("heap %d KiB, resident %d KiB, %d goroutines, %d files open, %d in the state directory", f.heap>>10, f.resident>>10, f.goroutines, f.files, f.dir)
}

// Thousands of small requests, through the broker and the engine, leave nothing behind.
func TestManySmallRequests(t *testing.T) {
	few := 6000
	if testing.Short() {
		few = 3000
	}
	n := soaking(t, few)
	b := startBox(t, nil)
	b.drop(t, "m.vqf", tinyModel(t, nil))
	b.ready(t, "m")
	b.connected(t)
	const clients = 4
	var list []*control.Client
	for i := range clients {
		list = append(list, b.client(t, fmt.Sprintf("c%d", i)))
	}
	asked := 0
	round := func(to int) {
		var wg sync.WaitGroup
		for i, c := range list {
			wg.Go(func() {
				for k := asked + i; k < to; k += clients {
					ctx, cancel := context.WithTimeout(context.Background(), waitFor)
					a, err := c.Send(ctx, request(fmt.Sprintf("%d small", k%97), 2), nil)
					cancel()
					if err != nil || a.Done.Usage.Completion == 0 {
						t.Errorf("request %d: %v", k, err)
						return
					}
				}
			})
		}
		wg.Wait()
		asked = to
	}
	round(n / 2) // by then what is bounded is full: 1024 ids are remembered
	before := b.footprint(t)
	start := time.Now()
	round(n)
	took := time.Since(start)
	after := b.footprint(t)
	t.Logf("%d requests, the second half at %.0f a second\nafter half: %v\nafter all:  %v", n, float64(n-n/2)/took.Seconds(), before, after)
	if after.heap > before.heap+4<<20 || after.resident > before.resident+48<<20 {
		t.Errorf("memory grows: %v, then %v", before, after)
	}
	if after.goroutines > before.goroutines+4 || after.files > before.files+4 || after.dir > before.dir+16 {
		t.Errorf("something is left behind: %v, then %v", before, after)
	}
}

// mosquitto is the real broker at a port of its own, which a test may kill.
type mosquitto struct {
	conf, addr string
	cmd        *exec.Cmd
}

func newMosquitto(t *testing.T) *mosquitto {
	t.Helper()
	m := &mosquitto{conf: filepath.Join(t.TempDir(), "mosquitto.conf"), addr: freePort(t)}
	_, port, err := net.SplitHostPort(m.addr)
	if err != nil {
		t.Fatal(err)
	}
	write(t, m.conf, fmt.Sprintf("log_type error\nallow_anonymous true\nlistener %s 127.0.0.1\n", port))
	m.start(t)
	t.Cleanup(m.kill)
	return m
}

func (m *mosquitto) start(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("/usr/sbin/mosquitto"); err != nil {
		if os.Getenv("WINDHOVER_REQUIRE_MOSQUITTO") == "1" {
			t.Fatal("mosquitto is not installed and WINDHOVER_REQUIRE_MOSQUITTO=1")
		}
		t.Skip("mosquitto is not installed: apt-get install mosquitto")
	}
	m.cmd = exec.Command("/usr/sbin/mosquitto", "-c", m.conf)
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "mosquitto listens", func() bool {
		c, err := net.Dial("tcp", m.addr)
		return err == nil && c.Close() == nil
	})
}

// kill ends it as a crash does.
func (m *mosquitto) kill() {
	if m.cmd != nil {
		_ = m.cmd.Process.Kill() // it may be gone
		_ = m.cmd.Wait()
		m.cmd = nil
	}
}

// stuckReader subscribes to everything and never reads again.
func stuckReader(t *testing.T, addr string) (stop func()) {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	c := packets.NewControlPacket(packets.Connect).(*packets.ConnectPacket)
	c.ProtocolName, c.ProtocolVersion, c.CleanSession, c.ClientIdentifier = "MQTT", 4, true, "stuck"
	s := packets.NewControlPacket(packets.Subscribe).(*packets.SubscribePacket)
	s.MessageID, s.Topics, s.Qoss = 1, []string{"windhover/#"}, []byte{1}
	for _, p := range []packets.ControlPacket{c, s} {
		if err := p.Write(nc); err != nil {
			t.Fatal(err)
		}
		if _, err := packets.ReadPacket(nc); err != nil {
			t.Fatal(err)
		}
	}
	return func() { _ = nc.Close() } // nothing is written through it
}

// 64 people ask a box at once, more than it takes: who is turned away comes again when
// he was told to. One reader hangs, and the broker is killed twice while answers come.
// Everybody gets the answer of a quiet run, whole and once.
func TestSixtyFourReaders(t *testing.T) {
	const readers = 64
	mq := newMosquitto(t)
	b := startBox(t, func(c *Config) { c.MQTT.URL = "mqtt://" + mq.addr })
	b.drop(t, "m.vqf", tinyModel(t, nil))
	b.ready(t, "m")
	b.connected(t)
	ctx, cancel := context.WithTimeout(context.Background(), 3*waitFor)
	defer cancel()
	dial := func(name string) *control.Client {
		t.Helper()
		c, err := control.DialClient(ctx, control.ClientConfig{
			Endpoint: control.Endpoint{URL: "mqtt://" + mq.addr, RetryMin: 10 * time.Millisecond, RetryMax: 200 * time.Millisecond},
			Device:   b.cfg.Device, Name: name, AnswerWithin: waitFor,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	prompt := func(i int) string { return fmt.Sprintf("%d: hello", i) }
	alone := dial("alone")
	want := make([]string, readers)
	for i := range want {
		a, err := alone.Send(ctx, request(prompt(i), 48), nil)
		if err != nil {
			t.Fatal(err)
		}
		want[i] = a.Text
	}
	defer stuckReader(t, mq.addr)()
	before := b.footprint(t)
	var ended, turned atomic.Int32
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range readers {
		c := dial(fmt.Sprintf("c%d", i))
		wg.Go(func() {
			<-begin
			for {
				ends := 0
				r := request(prompt(i), 48)
				r.Flush = 0
				a, err := c.Send(ctx, r, func(r *control.Reply) error {
					if r.Terminal() {
						ends++
					}
					return nil
				})
				var e *control.Error
				if errors.As(err, &e) && e.Code == control.QueueFull {
					turned.Add(1)
					select {
					case <-time.After(e.RetryAfter):
						continue
					case <-ctx.Done():
					}
				}
				if err != nil || a.Text != want[i] || ends != 1 {
					t.Errorf("reader %d: %v, %d ends, %+v", i, err, ends, a)
				}
				ended.Add(1)
				return
			}
		})
	}
	close(begin)
	for _, part := range []int32{readers / 8, readers / 2} {
		until(t, "answers", func() bool { return ended.Load() >= part || t.Failed() })
		mq.kill()
		mq.start(t)
	}
	wg.Wait()
	after := b.footprint(t)
	t.Logf("%d readers, %d times one was turned away\nbefore: %v\nafter:  %v", readers, turned.Load(), before, after)
	if after.heap > before.heap+32<<20 {
		t.Errorf("the heap grows: %v, then %v", before, after)
	}
	if !strings.HasPrefix(b.mqttState(t), "mqtt://") {
		t.Errorf("mqtt: %s", b.mqttState(t))
	}
}

func (b *box) mqttState(t *testing.T) string {
	t.Helper()
	doc, err := LocalStatus(context.Background(), b.cfg)
	if err != nil {
		t.Fatal(err)
	}
	return doc.MQTT
}
