// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// prepare has the tower compute what n positions from pos need of a scene's
// pictures, or takes what is kept of them. It is called before a pass, with the
// pool attached. The error is errStopped where ctx ended, or a page fault.
func (m *Model) prepare(ctx context.Context, c *scene, pos, n int) error {
	var err error
	c.within(pos, n, func(r *run, _, _, _ int) {
		if err != nil || c.made[r.picture] != nil {
			return
		}
		if e := m.sight.kept.find(r.picture.key); e != nil {
			c.made[r.picture] = e
			c.known++
			return
		}
		e, failed := m.sight.encode(ctx, r.picture.patches, m.pool)
		switch {
		case failed != nil && ctx.Err() != nil:
			err = errStopped
		case failed != nil:
			err = fmt.Errorf("engine: picture at position %d: %w", r.at, failed)
		default:
			c.made[r.picture] = e
			m.sight.kept.keep(r.picture.key, e)
		}
	})
	return err
}

// picturesKnown counts the pictures that needed no computing, once all of the prompt
// is computed: those that were kept, and those whose places were still in the cache.
func (c *scene) picturesKnown(pictures []*Picture) int {
	if c == nil {
		return 0
	}
	known := c.known
	for i, p := range pictures {
		if c.made[p] == nil || slices.Contains(pictures[:i], p) {
			known++
		}
	}
	return known
}

// see has the tower compute what the pass in work needs, on the scheduler's
// goroutine. A request that fails in it, or that nobody waits for any more, is taken
// out of the pass.
func (s *scheduler) see() {
	for i := 0; i < len(s.inPass); {
		g, sp := s.inPass[i], &s.spans[i]
		err := s.m.prepare(g.leaving, g.scene, sp.pos, len(sp.tokens))
		if err == nil {
			i++
			continue
		}
		s.mu.Lock()
		if !errors.Is(err, errStopped) {
			s.finish(g, "", err)
			g.tell()
		}
		s.spans, s.inPass = slices.Delete(s.spans, i, i+1), slices.Delete(s.inPass, i, i+1)
		s.mu.Unlock()
	}
}

// see finds the places of a request's pictures.
func (g *generation) see() (err error) {
	if len(g.req.Pictures) > 0 && len(g.prompt) < len(g.req.Tokens) {
		return badRequest("truncate: a prompt with pictures is not cut")
	}
	if g.scene, err = g.m.compose(g.prompt, g.req.Pictures); err != nil || g.scene == nil {
		return err
	}
	g.leaving, g.quit = context.WithCancel(context.Background())
	g.labels = append(make([]int32, 0, len(g.prompt)+g.max), g.scene.labels...)
	return nil
}

// showing makes an evaluation see pictures, until hide.
func (m *Model) showing(ctx context.Context, tokens []int32, pictures []*Picture) (hide func(), err error) {
	if m.seq.scene, err = m.compose(tokens, pictures); err == nil {
		err = m.prepare(ctx, m.seq.scene, 0, len(tokens))
	}
	if err != nil {
		m.seq.scene = nil
		return nil, err
	}
	return func() { m.seq.scene = nil }, nil
}
