// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"slices"
	"sync"
)

// gate lets requests of one model in at a time, as many as there are: models have
// workers of their own on the same cores. Who comes while another model's request
// waits stands behind it, so that no model is kept out.
type gate struct {
	mu     sync.Mutex
	model  servable // whose requests are inside
	inside int
	line   []*waiter
}

type waiter struct {
	model servable
	in    chan struct{} // closed when it is
}

// enter waits for the model's turn; leave must be called when the request has ended.
func (g *gate) enter(ctx context.Context, m servable) (leave func(), err error) {
	g.mu.Lock()
	w := &waiter{m, make(chan struct{})}
	g.line = append(g.line, w)
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
