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
		leave, err := g.enter(ctx, m)
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
			leave, err := g.enter(ctx, m)
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
	if _, err := g.enter(give2, b); !errors.Is(err, context.Canceled) {
		t.Errorf("entered with %v", err)
	}
	last()
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
