// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// gate lets requests of one model in at a time, as many as there are: models have
// workers of their own on the same cores. Who comes while another model's request
// waits stands behind it, so that no model is kept out, unless he is more urgent. Those
// inside are waited for.
type gate struct {
	mu     sync.Mutex
	model  servable // whose requests are inside
	inside int
	line   []*waiter // by urgency, then arrival
	came   int       // to the line, so far
}

type waiter struct {
	model   servable
	urgency int // lower first
	arrival int
	passed  int           // by how many since urgency last changed
	in      chan struct{} // closed when it is
}

// gatePatience is how many may pass one who waits before he counts as a step more
// urgent.
const gatePatience = 8

// enter waits for the model's turn; leave must be called when the request has ended.
func (g *gate) enter(ctx context.Context, m servable, priority int) (leave func(), err error) {
	g.mu.Lock()
	w := &waiter{model: m, urgency: priority, arrival: g.came, in: make(chan struct{})}
	g.came++
	for _, o := range g.line {
		if o.urgency <= w.urgency {
			continue
		}
		if o.passed++; o.passed == gatePatience {
			o.passed = 0
			o.urgency--
		}
	}
	g.line = append(g.line, w)
	slices.SortFunc(g.line, func(a, b *waiter) int {
		return cmp.Or(cmp.Compare(a.urgency, b.urgency), cmp.Compare(a.arrival, b.arrival))
	})
	g.admit()
	g.mu.Unlock()
	select {
	case <-w.in:
		return g.leave, nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if at := slices.Index(g.line, w); at >= 0 {
		g.line = slices.Delete(g.line, at, at+1)
		g.admit() // those behind it may be of the model inside
		return nil, ctx.Err()
	}
	return g.leave, nil // let in at the same time
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 {
		g.model = nil
	}
	g.admit()
}

// admit lets in who may go. mu is held.
func (g *gate) admit() {
	for len(g.line) > 0 && (g.inside == 0 || g.line[0].model == g.model) {
		w := g.line[0]
		g.line = g.line[1:]
		g.model = w.model
		g.inside++
		close(w.in)
	}
}
