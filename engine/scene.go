// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/binary"
	"fmt"

	"windhover/engine/vision"
	"windhover/kernels"
	"windhover/vqf"
)

// scene is what pictures are to a prompt: where they stand, where that puts the
// tokens for the rotary embedding, and what each position is told apart by.
type scene struct {
	realm  realm           // whose pictures are not computed again
	labels []int32         // [prompt] the token, or below zero what is in that place of which picture
	pos    [3][]int32      // [prompt] rotary positions: time, row, column
	delta  int32           // position n behind the prompt is n + delta on all three
	runs   []run           // in order
	ctx    context.Context // of an evaluation

	// The goroutine's that computes: what is there and still needed, and what the
	// tower had to compute.
	made  map[*Picture]*vision.Embedding
	fresh map[*Picture]bool
}

// run is the places of a picture, or of a frame of a video, in a prompt.
type run struct {
	at, n   int // positions
	picture *Picture
	from    int // place of the picture that it begins with
}

// safePlaces is how many places of a picture make its labels its own: each has 31
// bits of a digest of it.
const safePlaces = 8

// label tells place i of the picture from any other place of any picture.
func (p *Picture) label(i int) int32 {
	bits := binary.LittleEndian.Uint32(p.key[4*(i%safePlaces):]) ^ uint32(i)
	return -1 - int32(bits&0x7fffffff)
}

// compose finds the places of pictures in a prompt; nil for none. The stills among
// the pictures fill the runs of image tokens, the videos those of video tokens, each
// in order. The error is [ErrPicture], or [ErrUnsupported].
func (m *Model) compose(ids []int32, pictures []*Picture) (*scene, error) {
	if len(pictures) == 0 {
		return nil, nil
	}
	s, err := m.see()
	if err != nil {
		return nil, err
	}
	var stills, videos []*Picture
	var images, films []vision.Grid
	for _, p := range pictures {
		if p.Video() {
			videos, films = append(videos, p), append(films, p.patches.Grid)
		} else {
			stills, images = append(stills, p), append(images, p.patches.Grid)
		}
	}
	c := &scene{labels: make([]int32, len(ids)), made: map[*Picture]*vision.Embedding{}, fresh: map[*Picture]bool{}}
	for axis := range c.pos {
		c.pos[axis] = make([]int32, len(ids))
	}
	if c.delta, err = vision.Positions(&c.pos, ids, s.ids, s.cfg.Merge, images, films); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrPicture, err)
	}
	frame := 0 // of the first of videos
	for i := 0; i < len(ids); {
		r := run{at: i}
		switch ids[i] {
		case s.ids.Image:
			r.picture, stills = stills[0], stills[1:]
			r.n = r.picture.Places()
		case s.ids.Video:
			r.picture = videos[0]
			r.n = r.picture.patches.FramePlaces()
			r.from = frame * r.n
			if frame++; frame == r.picture.patches.Grid.T {
				videos, frame = videos[1:], 0
			}
		default:
			c.labels[i] = ids[i]
			i++
			continue
		}
		for k := range r.n {
			c.labels[i+k] = r.picture.label(r.from + k)
		}
		c.runs = append(c.runs, r)
		i += r.n
	}
	return c, nil
}

// shared is how many of n positions that look alike by their labels are taken for
// the same: a few places say too little about a picture.
func (c *scene) shared(n int) int {
	if c == nil {
		return n
	}
	for _, r := range c.runs {
		if n > r.at && n < r.at+min(r.n, safePlaces) {
			return r.at
		}
	}
	return n
}

// read lets go of the pictures whose places are among the first n positions, which
// are computed.
func (c *scene) read(n int) {
	if c == nil || len(c.made) == 0 {
		return
	}
	last := c.ends()
	for p := range c.made {
		if last[p] <= n {
			delete(c.made, p)
		}
	}
}

// ends is behind which position the last place of each picture is.
func (c *scene) ends() map[*Picture]int {
	last := map[*Picture]int{}
	for _, r := range c.runs {
		last[r.picture] = r.at + r.n
	}
	return last
}

// at is the rotary position of p.
func (c *scene) at(p int) (time, row, col int) {
	switch {
	case c == nil:
		return p, p, p
	case p >= len(c.labels):
		p += int(c.delta)
		return p, p, p
	}
	return int(c.pos[0][p]), int(c.pos[1][p]), int(c.pos[2][p])
}

// within calls do for each run of places among n positions from pos: rows of those,
// and the place of the picture that they begin with.
func (c *scene) within(pos, n int, do func(r *run, row, rows, place int)) {
	if c == nil || pos >= len(c.labels) {
		return
	}
	for i := range c.runs {
		r := &c.runs[i]
		from, to := max(r.at, pos), min(r.at+r.n, pos+n)
		if from < to {
			do(r, from-pos, to-from, r.from+from-r.at)
		}
	}
}

// look puts what the tower made of pictures in place of the embeddings of their
// tokens.
func (s *state) look() {
	dim := s.cfg.Dim
	for i := range s.spans {
		sp := &s.spans[i]
		sp.seq.scene.within(sp.pos, len(sp.tokens), func(r *run, row, rows, place int) {
			e := sp.seq.scene.made[r.picture]
			copy(s.x[(sp.row+row)*dim:][:rows*dim], e.Tokens[place*dim:])
		})
	}
}

// deepen adds the tower's features of a level to the places of pictures, behind the
// text layer of that number.
func (s *state) deepen(level int) {
	dim := s.cfg.Dim
	for i := range s.spans {
		sp := &s.spans[i]
		sp.seq.scene.within(sp.pos, len(sp.tokens), func(r *run, row, rows, place int) {
			if e := sp.seq.scene.made[r.picture]; level < len(e.DeepStack) {
				kernels.Add(s.x[(sp.row+row)*dim:][:rows*dim], e.DeepStack[level][place*dim:][:rows*dim])
			}
		})
	}
}

// axes is what the rotary embedding of pictures needs: of time, row and column, how
// many frequencies each has, and room for the tables of the last two.
type axes struct {
	sections [3]int
	cos, sin []float32 // [headDim/2]
}

// newAxes reads the sections of a header; without them all frequencies go by time.
func newAxes(a vqf.Arch) axes {
	x := axes{cos: make([]float32, a.HeadDim/2), sin: make([]float32, a.HeadDim/2)}
	if a.HasMRope != 0 {
		for i := range min(int(a.MRopeNSec), len(x.sections)) {
			x.sections[i] = int(a.MRopeSections[i])
		}
	}
	return x
}

// rotation fills the row of the rotary tables for position p of a sequence. Where
// row and column of a picture have their own positions, the frequencies go by
// threes: time, row, column, as far as the sections of the last two reach, the rest
// by time.
func (s *state) rotation(cos, sin []float32, c *scene, p int) {
	time, row, col := c.at(p)
	kernels.RopeRow(cos, sin, s.freqs, time)
	for axis, pos := range [...]int{time, row, col} {
		if pos == time {
			continue
		}
		kernels.RopeRow(s.axes.cos, s.axes.sin, s.freqs, pos)
		for i := axis; i < min(3*s.axes.sections[axis], len(cos)); i += 3 {
			cos[i], sin[i] = s.axes.cos[i], s.axes.sin[i]
		}
	}
}
