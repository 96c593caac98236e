// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"windhover/engine/vision"
)

// underway is the picture that the tower computes: one at a time, for one is what
// memory is counted for.
type underway struct {
	*vision.Encoding
	picture *Picture
	scene   *scene
	ctx     context.Context // ended: nobody waits for it
}

// lacking is the first run among n positions from pos whose picture is not computed;
// nil for none. What is kept of other requests of its realm is taken.
func (m *Model) lacking(c *scene, pos, n int) *run {
	var lack *run
	c.within(pos, n, func(r *run, _, _, _ int) {
		if lack != nil || c.made[r.picture] != nil {
			return
		}
		if e := m.sight.kept.find(c.realm, r.picture.key); e != nil {
			c.made[r.picture] = e
			return
		}
		lack = r
	})
	return lack
}

// start lets the tower begin with the picture of a run.
func (m *Model) start(ctx context.Context, c *scene, r *run) error {
	e, err := m.sight.begin(r.picture.patches, m.pool)
	if err != nil {
		return fmt.Errorf("engine: picture at position %d: %w", r.at, err)
	}
	c.fresh[r.picture] = true
	m.sight.at = &underway{e, r.picture, c, ctx}
	return nil
}

// advance computes a part of the picture under way; with the last one it is there,
// for its scene and for others that look at the same. The error is errStopped where
// nobody waits for it any more, or a page fault.
func (m *Model) advance() error {
	at := m.sight.at
	e, err := at.Step(at.ctx)
	if err == nil && e == nil {
		return nil
	}
	m.sight.at = nil
	switch {
	case err != nil && at.ctx.Err() != nil:
		return errStopped
	case err != nil:
		return fmt.Errorf("engine: picture: %w", err)
	}
	at.scene.made[at.picture] = e
	m.sight.kept.keep(at.scene.realm, at.picture.key, e)
	return nil
}

// showing makes an evaluation see pictures, until hide.
func (m *Model) showing(ctx context.Context, tokens []int32, pictures []*Picture) (hide func(), err error) {
	if m.seq.scene, err = m.compose(tokens, pictures); err != nil {
		m.seq.scene = nil
		return nil, err
	}
	if m.seq.scene != nil {
		m.seq.scene.ctx = ctx
	}
	return func() { m.seq.scene = nil }, nil
}

// look computes the pictures that an evaluation needs for n positions from pos.
func (m *Model) look(c *scene, pos, n int) error {
	if c == nil {
		return nil
	}
	defer func() { m.sight.at = nil }() // also of one that panics
	for {
		r := m.lacking(c, pos, n)
		if r == nil {
			return nil
		}
		if err := m.start(c.ctx, c, r); err != nil {
			return err
		}
		for m.sight.at != nil {
			if err := m.advance(); err != nil {
				return err
			}
		}
	}
}

// sees cuts n positions of a request, from pos, to those in front of a picture that
// is not computed; a request that is at one waits for the tower.
func (s *scheduler) sees(g *generation, pos, n int) int {
	if g.scene == nil {
		return n
	}
	r := s.m.lacking(g.scene, pos, n)
	if r == nil {
		return n
	}
	return max(r.at-pos, 0)
}

// see has the tower compute a part of a picture, on the scheduler's goroutine, if a
// request waits for one: the one under way, else that of the first in line. What
// others are told goes on in between. Whatever fails, a panic too, is the error of the
// request whose picture it is, and of none beside it.
func (s *scheduler) see() {
	sight := s.m.sight
	if sight == nil || sight.at == nil && len(s.blind) == 0 {
		return
	}
	var c *scene // whose picture is in hand
	defer func() {
		if r := recover(); r != nil {
			sight.at = nil
			s.blinded(c, recoveredError(r))
		}
	}()
	if sight.at == nil {
		g := s.firstBlind()
		if g == nil {
			return
		}
		c = g.scene
		if len(s.spans) > 0 && s.inSight(g) > sight.kept.budget {
			return // until those have read theirs
		}
		r := s.m.lacking(g.scene, g.seq.len(), 1)
		if r == nil {
			return // another's was the same
		}
		if err := s.m.start(g.leaving, g.scene, r); err != nil {
			s.blinded(c, err)
			return
		}
	}
	c = sight.at.scene
	if err := s.m.advance(); err != nil && !errors.Is(err, errStopped) {
		s.blinded(c, err)
	}
}

// firstBlind is the first that still waits for the tower.
func (s *scheduler) firstBlind() *generation {
	for _, g := range s.blind {
		if g.seq != nil && g.leaving.Err() == nil { // neither put back nor left
			return g
		}
	}
	return nil
}

// blinded ends the request whose picture could not be computed.
func (s *scheduler) blinded(c *scene, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range slices.Concat(s.active, s.waiting) {
		if g.scene == c {
			s.finish(g, "", err)
			g.tell()
		}
	}
}

// inSight is what the pictures of requests other than g hold in memory, in bytes.
func (s *scheduler) inSight(g *generation) int64 {
	n := int64(0)
	for _, other := range s.active {
		if other != g && other.scene != nil {
			for _, e := range other.scene.made {
				n += embeddingBytes(e)
			}
		}
	}
	return n
}

// forsake lets go of a picture that nobody waits for.
func (s *sight) forsake() {
	if s != nil && s.at != nil && s.at.ctx.Err() != nil {
		s.at = nil
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
	g.scene.realm = g.realm
	g.labels = append(make([]int32, 0, len(g.prompt)+g.max), g.scene.labels...)
	return nil
}

// looked counts the pictures that the sequence has behind it and that the tower did not
// have to compute. The scheduler's goroutine calls it, with mu held.
func (g *generation) looked() {
	if g.scene == nil || g.lookedAt >= len(g.prompt) {
		return
	}
	g.lookedAt, g.picturesKnown = g.seq.len(), 0
	ends := g.scene.ends()
	for _, p := range g.req.Pictures {
		if ends[p] <= g.lookedAt && !g.scene.fresh[p] {
			g.picturesKnown++
		}
	}
}
