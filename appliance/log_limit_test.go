// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"windhover/control"
)

// A flood of one kind is bounded, tells how much it was, and takes nothing from others.
func TestLogFlood(t *testing.T) {
	for _, format := range formats {
		var out bytes.Buffer
		o, clock := outputOf(t, format, &out, DefaultConfig().Log)
		log := o.Logger()
		var elapsed time.Duration
		for i := range 100_000 {
			log.Warn("mqtt replay ignored", "topic", fmt.Sprint("windhover/box/", i))
			if i%1000 == 999 {
				*clock = clock.Add(time.Second)
				elapsed += time.Second
			}
			if i == 50_000 {
				log.Error("a request failed", "error", "EIO")
				log.Error("model refused", "event", "model_failed", "model", "m")
				log.Warn("mqtt replay ignored", "event", "name_taken")
			}
		}
		want := 10 + int(elapsed/logRefill) // the burst, and one for each pause
		got := strings.Count(out.String(), "replay")
		if got > want+1 || got < want-1 {
			t.Errorf("%s: %d records of a flood of 100000, want %d", format, got, want)
		}
		for _, other := range []string{"EIO", "model_failed", "name_taken"} {
			if strings.Count(out.String(), other) != 1 {
				t.Errorf("%s: %s is lost", format, other)
			}
		}
		// All that was kept back is accounted for, at the latest at the end.
		out.Reset()
		o.Flush()
		if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "suppressed") || !strings.Contains(got, "mqtt replay ignored") {
			t.Errorf("%s: at the end %q", format, got)
		}
		out.Reset()
		o.Flush()
		if out.Len() > 0 {
			t.Errorf("%s: told twice: %q", format, out.String())
		}
		*clock = clock.Add(time.Hour)
		for range 10 {
			log.Warn("mqtt replay ignored")
		}
		if got := strings.Count(out.String(), "replay"); got != 10 {
			t.Errorf("%s: %d of 10 after an hour", format, got)
		}
	}
}

// The sum of what goes out and of what is said to have been kept back is what came in.
func TestLogSuppressedAddsUp(t *testing.T) {
	l := newLimiter(time.Now)
	var clock time.Time
	l.now = func() time.Time { return clock }
	l.setBurst(3)
	var out, told uint64
	for i := range 10_000 {
		if before, ok := l.take(0, "x", ""); ok {
			out++
			told += before
		}
		clock = clock.Add(time.Duration(i%7) * 300 * time.Millisecond)
		for _, s := range l.drain(tellSuppressed) {
			told += s.n
		}
	}
	for _, s := range l.drain(0) {
		told += s.n
	}
	if out+told != 10_000 || l.held != 0 {
		t.Errorf("%d out, %d told of, %d held", out, told, l.held)
	}
	// Without a bound, and with debug, which has its own.
	l.setBurst(0)
	for range 1000 {
		if _, ok := l.take(0, "x", ""); !ok {
			t.Fatal("a limit of none")
		}
	}
	l.setBurst(3)
	n := 0
	for range 10_000 {
		if _, ok := l.take(-4, "x", ""); ok {
			n++
		}
	}
	if n != 300 {
		t.Errorf("%d debug records, want a hundred times the burst", n)
	}
	l.setBurst(1 << 62)
	if _, ok := l.take(-4, "y", ""); !ok {
		t.Error("a bound that is larger than any lets nothing out")
	}
}

// A kind that has been quiet for a minute is told of with the next record of any kind.
func TestLogSuppressedIsTold(t *testing.T) {
	var out bytes.Buffer
	o, clock := outputOf(t, "text", &out, Log{Burst: 1})
	log := o.Logger()
	for range 5 {
		log.Warn("flood")
	}
	log.Info("other")
	if strings.Contains(out.String(), "suppressed") {
		t.Errorf("told while it goes on: %s", out.String())
	}
	*clock = clock.Add(2 * tellSuppressed)
	log.Info("another")
	if got := out.String(); !strings.Contains(got, `level=WARN msg="records of one kind were suppressed" of=flood suppressed=4`) {
		t.Errorf("got %s", got)
	}
}

// Whatever somebody makes kinds of, their number is bounded, and events keep theirs.
func TestLogKindsAreBounded(t *testing.T) {
	l := newLimiter(time.Now)
	clock := time.Unix(0, 0)
	l.now = func() time.Time { return clock }
	l.setBurst(1)
	out := 0
	for i := range 10_000 {
		if _, ok := l.take(4, fmt.Sprint("m", i), fmt.Sprint("e", i)); ok {
			out++
		}
	}
	if out > logKinds+2 || len(l.kinds) > logKinds+2 {
		t.Errorf("%d records, %d accounts", out, len(l.kinds))
	}
	for event := range messageIDs {
		if _, ok := l.take(8, "x", event); !ok {
			t.Errorf("%s is lost", event)
		}
	}
	if _, ok := l.take(8, "x", ""); !ok {
		t.Error("an error is lost")
	}
	clock = clock.Add(time.Hour)
	if _, ok := l.take(0, "new", ""); !ok || len(l.kinds) > logKinds {
		t.Errorf("what owes nothing is kept: %d accounts", len(l.kinds))
	}
}

// Clients that publish nonsense as fast as they can cost a bounded number of lines and
// no memory, at any level, and what matters is told meanwhile and afterwards.
func TestFloodOfNotices(t *testing.T) {
	for _, level := range []string{"info", "debug"} {
		var out bytes.Buffer
		c := DefaultConfig().Log
		c.Level = level
		o, clock := outputOf(t, "json", &out, c)
		s := &server{log: o.Logger()}
		heap := func() uint64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc - uint64(out.Cap())
		}
		before, tail := heap(), "/x\x1b[2J"+strings.Repeat("y", 300)
		for i := range 100_000 {
			topic := "windhover/v1/box/req/c" + strconv.Itoa(i) + tail
			s.notice(control.Notice{Event: control.NoticeReplay, Topic: topic})
			s.notice(control.Notice{Event: control.NoticeIgnored, Topic: topic})
			s.notice(control.Notice{Event: control.NoticeRefused, Client: topic, ID: topic, Seen: control.Observation{Op: "other", Code: "bad_request"}})
			s.notice(control.Notice{Event: control.NoticeJobRefused, Client: topic, Err: errors.New(topic)})
			if i == 70_000 {
				s.notice(control.Notice{Event: control.NoticeRival, Err: errors.New("another box")})
				s.notice(control.Notice{Event: control.NoticeState, Err: errors.New("disk full")})
			}
			*clock = clock.Add(time.Millisecond) // 100 s in all
		}
		after := heap()
		if after > before+(1<<20) {
			t.Errorf("%s: %d bytes are held, %d before", level, after, before)
		}
		most := 2*(10+10+1) + 2
		if level == "debug" {
			most += 2 * (1000 + 1000 + 1)
		}
		if got := strings.Count(out.String(), "\n"); got > most {
			t.Errorf("%s: %d lines of 400000, want no more than %d", level, got, most)
		}
		if !strings.Contains(out.String(), "another box") || !strings.Contains(out.String(), "disk full") {
			t.Errorf("%s: what matters is lost", level)
		}
		out.Reset()
		s.notice(control.Notice{Event: control.NoticeDown, Link: "data", Err: errors.New("EOF")})
		if !strings.Contains(out.String(), "mqtt link down") {
			t.Errorf("%s: nothing is told after the flood", level)
		}
	}
}

// The path of a record that is kept back allocates nothing.
func BenchmarkLogSuppressed(b *testing.B) {
	l := newLimiter(time.Now)
	l.setBurst(1)
	b.ReportAllocs()
	for b.Loop() {
		l.take(4, "flood", "")
	}
}
