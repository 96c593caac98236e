// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"windhover/engine"
	"windhover/internal/testmodel"
)

// Requests of a model are inside together; who comes while another model's waits
// stands behind it, and who gives up lets those behind him in.
func TestGate(t *testing.T) {
	ctx := context.Background()
	var g gate
	a, b := &still{}, &still{}
	enter := func(m servable) (leave func()) {
		t.Helper()
		leave, err := g.enter(ctx, m, 5)
		if err != nil {
			t.Fatal(err)
		}
		return leave
	}
	first, second := enter(a), enter(a)
	var mu sync.Mutex
	var order []string
	var all sync.WaitGroup
	come := func(name string, ctx context.Context, m servable) {
		g.mu.Lock()
		n := len(g.line)
		g.mu.Unlock()
		all.Go(func() {
			leave, err := g.enter(ctx, m, 5)
			if err != nil {
				return
			}
			mu.Lock()
			order = append(order, name)
			mu.Unlock()
			leave()
		})
		for have := n; have == n; {
			g.mu.Lock()
			have = len(g.line)
			g.mu.Unlock()
		}
	}
	quit, give := context.WithCancel(ctx)
	come("b1", ctx, b)
	come("a3", ctx, a)
	come("b2", quit, b)
	come("a4", ctx, a)
	first()
	mu.Lock()
	if len(order) != 0 {
		t.Errorf("%v went in beside a", order)
	}
	mu.Unlock()
	give()
	for waiting := 4; waiting == 4; {
		g.mu.Lock()
		waiting = len(g.line)
		g.mu.Unlock()
	}
	second()
	all.Wait()
	if len(order) != 3 || order[0] != "b1" || slices.Contains(order, "b2") {
		t.Errorf("order %v, want b1 before a3 and a4", order)
	}
	if g.inside != 0 || len(g.line) != 0 || g.model != nil {
		t.Errorf("%d inside, %d in line", g.inside, len(g.line))
	}
	give2, cancel := context.WithCancel(ctx)
	cancel()
	last := enter(a)
	if _, err := g.enter(give2, b, 5); !errors.Is(err, context.Canceled) {
		t.Errorf("entered with %v", err)
	}
	last()
}

// The urgent stand before the less urgent, whichever model they ask; but these are not
// passed for ever.
func TestGateUrgent(t *testing.T) {
	ctx := context.Background()
	var g gate
	a, b := &still{}, &still{}
	leave, err := g.enter(ctx, a, 5)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var order []string
	var all sync.WaitGroup
	come := func(name string, m servable, priority int) {
		g.mu.Lock()
		n := g.came
		g.mu.Unlock()
		all.Go(func() {
			leave, err := g.enter(ctx, m, priority)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, name)
			mu.Unlock()
			leave()
		})
		for have := n; have == n; {
			g.mu.Lock()
			have = g.came
			g.mu.Unlock()
		}
	}
	come("b5", b, 5)
	come("a6", a, 6)
	for i := range gatePatience {
		if i%2 == 0 {
			come("b4", b, 4)
		} else {
			come("a4", a, 4) // beside the one inside, were it first
		}
		g.mu.Lock()
		if first := g.line[0]; i < gatePatience-1 && (first.model != b || first.urgency != 4) {
			t.Errorf("after %d more urgent ones, one of %d is first", i+1, first.urgency)
		}
		g.mu.Unlock()
	}
	come("last", b, 4) // b5 has been passed often enough, and a6 is where b5 was
	leave()
	all.Wait()
	if len(order) != gatePatience+3 || slices.Index(order, "b5") > 1 || order[len(order)-1] != "a6" { // the first two go in together
		t.Errorf("order %v", order)
	}
}

// Requests of one model are computed beside each other: the second is answered while
// the first is not through.
func TestRequestsRunTogether(t *testing.T) {
	l, path := testLoader(t, nil)
	s := loadOne(t, l, path)
	ctx := context.Background()
	once := false
	res, err := s.Generate(ctx, engine.Request{Tokens: testmodel.Tokens("0"), MaxTokens: 100}, func(engine.Event) error {
		if once {
			return nil
		}
		once = true
		_, err := s.Generate(ctx, engine.Request{Tokens: testmodel.Tokens("1"), MaxTokens: 5}, nil)
		return err
	})
	if err != nil || len(res.Tokens) != 100 || !once {
		t.Errorf("%+v, %v", res, err)
	}
}
