// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"windhover/vqf"
)

// stepper is a model that only counts.
type stepper struct {
	servable
	n uint64
}

func (s *stepper) Steps() uint64 { return s.n }

// The watchdog starves when the look at the drop directory stands still for longer
// than what it is at may take, and not while that reports or waits for its turn.
func TestPulseOfTheLook(t *testing.T) {
	p, start := new(pulse), time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	if !p.moving(at(time.Hour)) {
		t.Error("nothing to do: not alive")
	}
	p.look("loading m", loadLimit)
	if _, _, tell := p.late(at(tellAfter / 2)); tell {
		t.Error("told too early")
	}
	what, quiet, tell := p.late(at(2 * tellAfter))
	if !tell || what != "loading m" || quiet < tellAfter {
		t.Errorf("late: %q %v %v", what, quiet, tell)
	}
	if _, _, tell := p.late(at(3 * tellAfter)); tell {
		t.Error("told twice")
	}
	if !p.moving(at(loadLimit-time.Minute)) || p.moving(at(loadLimit+time.Minute)) {
		t.Error("the limit of the step does not count")
	}
	// Reports.
	p.look("verifying m", time.Hour)
	p.step.at = at(-2 * time.Hour)
	if p.moving(at(0)) {
		t.Error("stands still and is alive")
	}
	beat(withBeat(context.Background(), p))
	if !p.moving(time.Now()) {
		t.Error("a report is no sign of life")
	}
	// Waiting for a model that generates.
	m := &stepper{}
	end := p.begin(m)
	for i := range 10 {
		m.n++
		if !p.moving(at(time.Duration(i) * 59 * time.Minute)) {
			t.Fatalf("look %d: waiting for a generation is standing still", i)
		}
	}
	end()
	p.look("", 0)
	if !p.moving(at(100*time.Hour)) || p.doing() != "" {
		t.Error("after the look: not alive")
	}
}

// What takes long in a look says what it is at, and gives signs of life.
func TestLookSaysWhatItIsAt(t *testing.T) {
	r := newRig(t, t.TempDir())
	r.put(t, "m.vqf", tinyModel(t, nil))
	var at []string
	load := r.load
	r.load = func(ctx context.Context, weights string, in installed) (servable, error) {
		at = append(at, r.pulse.doing())
		beats := 0
		ctx = context.WithValue(ctx, beatKey{}, func() { beats++ })
		if _, err := digest(ctx, weights, vqf.VerifyOptions{}); err != nil || beats == 0 {
			t.Errorf("verification: %d signs of life, %v", beats, err)
		}
		if err := copyOpen(ctx, open(t, weights), weights+".copy", in.Stored.Size, 0); err != nil || beats < 2 {
			t.Errorf("copy: %d signs of life, %v", beats, err)
		}
		return load(ctx, weights, in)
	}
	r.scan(context.Background())
	expect(t, r, "m ready*")
	if got := strings.Join(at, ", "); got != "loading m" || r.pulse.doing() != "" {
		t.Errorf("at %q, then %q", got, r.pulse.doing())
	}
}

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // read only
	return f
}

// lines collects a log that several goroutines write.
type lines struct {
	mu sync.Mutex // guards b
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
