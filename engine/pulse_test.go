// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"sync"
	"testing"

	"windhover/internal/testmodel"
)

// A request that waits for storage moves with every piece of weights that comes,
// however long that takes.
func TestStepsCountWhatComes(t *testing.T) {
	f := &wideModel{closed: sealed(t, testmodel.Write(t, wide()), secret)}
	m, w := f.open(t, f.closed, 1)
	last, pieces := uint64(0), 0
	w.watch(func(name string, _ int64) error {
		if name == "token_embed" { // the caller reads it
			return nil
		}
		now := m.Steps() // by the one worker that reads
		if pieces++; pieces > 1 && now <= last {
			t.Errorf("piece %d of %s: %d steps, %d before the one before", pieces, name, now, last)
		}
		last = now
		return nil
	})
	tokensOf(t, m, short)
	calm(m.w.res.(*streamed))
	w.watch(nil)
	if pieces < 20 {
		t.Errorf("only %d pieces read", pieces)
	}
}

// Within a phase the steps grow with its units.
func TestStepsCountUnits(t *testing.T) {
	m := load(t, testmodel.Write(t, noisy()), Options{Threads: 1})
	settle(t, m)
	m.st.units.begin(3)
	for from, last := 0, m.Steps(); ; {
		if _, ok := m.st.units.take(0, 1, &from); !ok {
			break
		}
		if now := m.Steps(); now != last+1 {
			t.Errorf("%d steps after a unit, %d before", now, last)
		}
		last = m.Steps()
	}
}

// released tells of each time that a lock is given up.
type released struct {
	sync.Locker
	tell chan struct{}
}

func (r *released) Unlock() {
	r.Locker.Unlock()
	r.tell <- struct{}{}
}

// Who waits for a request to end, to look at the workers, finds no pool when the
// model is closed meanwhile.
func TestAffinityBesideClose(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{Threads: 2})
	s := byHand(m)
	waits := &released{&s.mu, make(chan struct{}, 1)}
	s.mu.Lock()
	s.closing, s.attached, s.calm.L = false, true, waits
	s.mu.Unlock()
	said := make(chan error, 1)
	go func() { said <- m.CheckAffinity() }()
	<-waits.tell
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	s.rest()
	if err := <-said; !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want %v", err, ErrClosed)
	}
}

// Whatever is asked of a model while it is closed ends, with an error that says so or
// a result.
func TestCloseBesideEverything(t *testing.T) {
	path := testmodel.Write(t, testmodel.Config{Vision: true, Random: true, Q8: 2, MaxSeq: 512})
	for round := range 4 {
		m, err := Load(path, Options{Threads: 2, Pin: round%2 == 0, Saved: Saved{Path: t.TempDir() + "/p", Key: "k"}})
		if err != nil {
			t.Fatal(err)
		}
		ids, pics := sceneOf(t, m)
		text := tokenRequest(3, 100)
		for i := range text.Tokens {
			text.Tokens[i] %= 200 // none that stands for a picture
		}
		ctx, cancel := context.WithCancel(context.Background())
		begun := make(chan struct{}, 64)
		ask := []func() error{
			func() error {
				_, err := m.Generate(ctx, text, func(Event) error { return nil })
				return err
			},
			func() error { return m.Logits(ctx, ids, 0, func(int, []float32) error { return nil }, pics...) },
			func() error { m.Activity(); m.Steps(); return m.CheckAffinity() },
			func() error { _, err := m.SaveCache(ctx); return err },
		}
		var all sync.WaitGroup
		for i := range 2 * len(ask) {
			all.Go(func() {
				for range 3 {
					begun <- struct{}{}
					if err := ask[i%len(ask)](); err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrBusy) && !errors.Is(err, context.Canceled) {
						t.Errorf("question %d: %v", i%len(ask), err)
					}
				}
			})
		}
		for range 3 + 5*round {
			<-begun
		}
		cancel()
		for range 2 {
			all.Go(func() {
				if err := m.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
		}
		all.Wait()
	}
}
