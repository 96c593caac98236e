// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"windhover/engine"
	"windhover/internal/testmodel"
	"windhover/kernels"
)

// testLoader is a loader for tiny models, and the path of one.
func testLoader(t *testing.T, change func(*Engine)) (*loader, string) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Engine.Pin = false
	if change != nil {
		change(&cfg.Engine)
	}
	topo, err := kernels.DetectTopology()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.vqf")
	writeBytes(t, path, tinyModel(t, nil))
	return newLoader(cfg, noPassphrase(), len(topo.All), new(pulse)), path
}

func loadOne(t *testing.T, l *loader, path string) *takesTurns {
	t.Helper()
	s, err := l.load(context.Background(), path, installed{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.(*takesTurns)
}

// More threads than the process may use is a setting for another board, no reason to
// serve nothing.
func TestThreadsAreClamped(t *testing.T) {
	l, path := testLoader(t, func(e *Engine) { e.Threads = 4096 })
	if got := loadOne(t, l, path).Info().Threads; got != l.cpus {
		t.Errorf("got %d threads of %d CPUs", got, l.cpus)
	}
}

// A loaded model counts until it is closed.
func TestLoaderCounts(t *testing.T) {
	l, path := testLoader(t, func(e *Engine) { e.MemoryLimit = "1G" })
	before := l.room(nil)
	m := loadOne(t, l, path)
	if got, want := l.room(nil), before-m.Info().Need.Total(); got != want {
		t.Errorf("with a model: %d, want %d", got, want)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if got := l.room(nil); got != before {
		t.Errorf("after it was closed: %d, want %d", got, before)
	}
}

// Models compute one after another. The one that waits is not the one that has to
// move, and can be told to stop.
func TestTurns(t *testing.T) {
	l, path := testLoader(t, nil)
	a, b := loadOne(t, l, path), loadOne(t, l, path)
	started, goOn := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	req := engine.Request{Tokens: testmodel.Tokens("hello"), MaxTokens: 4}
	go func() {
		first := true
		_, err := a.Generate(context.Background(), req, func(engine.Event) error {
			if first {
				first = false
				close(started)
				<-goOn
			}
			return nil
		})
		done <- err
	}()
	<-started
	ctx, cancel := context.WithCancel(context.Background())
	waited := make(chan error, 1)
	go func() {
		_, err := b.Generate(ctx, req, func(engine.Event) error { return nil })
		waited <- err
	}()
	l.pulse.mu.Lock()
	inWork := l.pulse.model
	l.pulse.mu.Unlock()
	if inWork != servable(a) {
		t.Errorf("the model that has to move is %v", inWork)
	}
	cancel()
	if err := <-waited; err != context.Canceled {
		t.Errorf("waiting for its turn: got %v", err)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if !l.pulse.moving(time.Now().Add(time.Hour)) {
		t.Error("nothing is in work, and yet it does not move")
	}
}

// still is a model whose counter the test sets.
type still struct {
	servable
	steps uint64
}

func (s *still) Steps() uint64 { return s.steps }

func TestPulse(t *testing.T) {
	var p pulse
	now := time.Now()
	if !p.moving(now) {
		t.Error("without work")
	}
	m := &still{}
	end := p.begin(m)
	if !p.moving(now.Add(stuckAfter / 2)) {
		t.Error("right after the begin")
	}
	if p.moving(now.Add(2 * stuckAfter)) {
		t.Error("nothing moved for long")
	}
	m.steps++
	if !p.moving(now.Add(3*stuckAfter)) || p.moving(now.Add(5*stuckAfter)) {
		t.Error("a step counts for a while")
	}
	end()
	if !p.moving(now.Add(9 * stuckAfter)) {
		t.Error("after the end")
	}
}
