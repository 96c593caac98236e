// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"windhover/appliance/rollout"
	"windhover/control/ota"
	"windhover/internal/testdisk"
)

// slow is a box whose download of one model takes until its context ends or it is let
// go, and that writes down what it is asked for.
type slow struct {
	model string
	let   chan struct{}
	later bool // it says that it cannot begin yet instead

	mu    sync.Mutex
	steps []string
}

func (b *slow) Do(ctx context.Context, s rollout.Run) error {
	b.mu.Lock()
	b.steps = append(b.steps, s.Model+" "+string(s.Phase))
	b.mu.Unlock()
	if s.Model != b.model || s.Phase != rollout.Download {
		return nil
	}
	select {
	case <-b.let:
		return nil
	default:
	}
	if b.later {
		return rollout.ErrLater
	}
	select {
	case <-b.let:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (b *slow) Collect(map[ota.Digest]bool) error { return nil }
func (b *slow) Report(rollout.Report)             {}

func (b *slow) count(step string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.steps {
		if s == step {
			n++
		}
	}
	return n
}

// A download that takes long, or cannot begin, holds up no other model: it makes way,
// and is begun again.
func TestDownloadMakesWay(t *testing.T) {
	for _, later := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := &slow{model: "slow", let: make(chan struct{}), later: later}
			m, err := rollout.Open(store(&testdisk.Disk{}), b)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			events, done := make(chan rollout.Event), make(chan error, 1)
			go func() { done <- m.Run(ctx, events, nil) }()
			want := func(name string, n int64) rollout.Want {
				w := newRelease(n).want(n)
				w.Model = name
				return w
			}
			if !later {
				events <- want("quick", 1)
				synctest.Wait()
			}
			events <- want("slow", 2)
			synctest.Wait()
			if later {
				events <- want("quick", 1)
			} else {
				events <- rollout.Remove{Model: "quick"} // a step that must not wait
			}
			synctest.Wait()
			if later && b.count("quick observing") != 1 || !later && b.count("quick withdrawing") != 1 {
				t.Fatalf("the other model waits: %q", b.steps)
			}
			if later {
				close(b.let)
				events <- rollout.Look{}
			} else {
				close(b.let)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if n := b.count("slow downloading"); n != 2 || b.count("slow observing") != 1 {
				t.Errorf("downloads %d: %q", n, b.steps)
			}
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
}
