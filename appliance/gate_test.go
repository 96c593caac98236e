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

// comers ask a gate one after the other, each in the line before the next one comes.
type comers struct {
	t   *testing.T
	g   *gate
	all sync.WaitGroup

	mu    sync.Mutex
	order []string // who went in
}

// come returns when the one of a name has come to the line; who gives up may fail.
func (c *comers) come(ctx context.Context, name string, m servable, priority int) {
	c.g.mu.Lock()
	n := c.g.came
	c.g.mu.Unlock()
	c.all.Go(func() {
		leave, err := c.g.enter(ctx, m, priority)
		if err != nil {
			if ctx.Err() == nil {
				c.t.Error(err)
			}
			return
		}
		c.mu.Lock()
		c.order = append(c.order, name)
		c.mu.Unlock()
		leave()
	})
	for have := n; have == n; {
		c.g.mu.Lock()
		have = c.g.came
		c.g.mu.Unlock()
	}
}

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
	in := comers{t: t, g: &g}
	quit, give := context.WithCancel(ctx)
	in.come(ctx, "b1", b, 5)
	in.come(ctx, "a3", a, 5)
	in.come(quit, "b2", b, 5)
	in.come(ctx, "a4", a, 5)
	first()
	in.mu.Lock()
	if len(in.order) != 0 {
		t.Errorf("%v went in beside a", in.order)
	}
	in.mu.Unlock()
	give()
	for waiting := 4; waiting == 4; {
		g.mu.Lock()
		waiting = len(g.line)
		g.mu.Unlock()
	}
	second()
	in.all.Wait()
	if len(in.order) != 3 || in.order[0] != "b1" || slices.Contains(in.order, "b2") {
		t.Errorf("order %v, want b1 before a3 and a4", in.order)
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
	in := comers{t: t, g: &g}
	in.come(ctx, "b5", b, 5)
	in.come(ctx, "a6", a, 6)
	for i := range gatePatience {
		if i%2 == 0 {
			in.come(ctx, "b4", b, 4)
		} else {
			in.come(ctx, "a4", a, 4) // beside the one inside, were it first
		}
		g.mu.Lock()
		if first := g.line[0]; i < gatePatience-1 && (first.model != b || first.urgency != 4) {
			t.Errorf("after %d more urgent ones, one of %d is first", i+1, first.urgency)
		}
		g.mu.Unlock()
	}
	in.come(ctx, "last", b, 4) // b5 has been passed often enough, and a6 is where b5 was
	leave()
	in.all.Wait()
	if len(in.order) != gatePatience+3 || slices.Index(in.order, "b5") > 1 || in.order[len(in.order)-1] != "a6" { // the first two go in together
		t.Errorf("order %v", in.order)
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
