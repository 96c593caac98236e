// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Grid is the shape of a picture in patches: frames of the tower (of Temporal
// frames of the video each), rows, columns.
type Grid struct{ T, H, W int }

// Patches is what the tower reads: resized frames. A still picture has one
// frame, which fills all of a patch.
type Patches struct {
	Grid Grid
	cfg  Config
	pix  [][]uint8 // frames [H*patch][W*patch][3], Temporal for each of Grid.T; stills 1
}

// Still resizes a picture. The error is [ErrSize].
func (c *Config) Still(m *Image) (*Patches, error) {
	w, h, err := c.Resized(m.Width, m.Height)
	if err != nil {
		return nil, err
	}
	return &Patches{Grid{1, h / c.Patch, w / c.Patch}, *c, [][]uint8{m.resized(w, h).Pix}}, nil
}

// Film takes the frames of a video one after the other.
type Film struct {
	cfg           *Config
	n             int // frames there are to be
	width, height int // of the first one
	p             *Patches
}

// Film begins with a video of n frames.
func (c *Config) Film(n int) *Film { return &Film{cfg: c, n: n} }

// Add resizes a frame, which must have the size of the first one, and tells what the
// result takes in bytes. The error is [ErrSize].
func (f *Film) Add(m *Image) (int64, error) {
	if f.p == nil {
		w, h, err := f.cfg.ResizedFrames(f.n, m.Width, m.Height)
		if err != nil {
			return 0, err
		}
		f.width, f.height = m.Width, m.Height
		f.p = &Patches{Grid: Grid{H: h / f.cfg.Patch, W: w / f.cfg.Patch}, cfg: *f.cfg}
	}
	if m.Width != f.width || m.Height != f.height {
		return 0, fmt.Errorf("vision: frame %d of %d x %d pixels, the first has %d x %d: %w",
			len(f.p.pix), m.Width, m.Height, f.width, f.height, ErrSize)
	}
	pix := m.resized(f.p.Grid.W*f.cfg.Patch, f.p.Grid.H*f.cfg.Patch).Pix
	f.p.pix = append(f.p.pix, pix)
	return int64(len(pix)), nil
}

// Patches are those of the frames that were added. The last one is repeated until
// the tower's frames are full. The error is [ErrSize]: there are none.
func (f *Film) Patches() (*Patches, error) {
	p := f.p
	if p == nil {
		return nil, fmt.Errorf("vision: no frames: %w", ErrSize)
	}
	for len(p.pix)%f.cfg.Temporal != 0 {
		p.pix = append(p.pix, p.pix[len(p.pix)-1])
	}
	p.Grid.T = len(p.pix) / f.cfg.Temporal
	return p, nil
}

// Bytes is what the pixels take.
func (p *Patches) Bytes() int64 {
	n := int64(0)
	for i, frame := range p.pix {
		if i == 0 || &frame[0] != &p.pix[i-1][0] { // the last one may be repeated
			n += int64(len(frame))
		}
	}
	return n
}

// Places is how many tokens of a prompt the picture fills.
func (p *Patches) Places() int { return p.Grid.T * p.FramePlaces() }

// FramePlaces is how many of them a frame of the tower fills.
func (p *Patches) FramePlaces() int { return p.Grid.places(p.cfg.Merge) }

// places is how many tokens a frame of the grid fills.
func (g Grid) places(merge int) int { return (g.H / merge) * (g.W / merge) }

// Len is the number of values of a patch.
func (p *Patches) Len() int { return 3 * p.cfg.Temporal * p.cfg.Patch * p.cfg.Patch }

// Key tells what goes into the tower: equal for equal results.
func (p *Patches) Key() [sha256.Size]byte {
	h := sha256.New()
	var b []byte
	for _, v := range []int{p.Grid.T, p.Grid.H, p.Grid.W, p.cfg.Patch, p.cfg.Merge, p.cfg.Temporal, len(p.pix)} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	h.Write(b)
	for _, frame := range p.pix {
		h.Write(frame)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// Patch writes patch i of a frame of the tower, in the order channel, frame, y,
// x, a pixel p as (p-127.5)/127.5. Patches go by places: the Merge*Merge patches
// of a place together, row by row, places row by row too.
func (p *Patches) Patch(dst []float32, frame, i int) {
	n, width := p.cfg.Patch, 3*p.cfg.Patch*p.Grid.W
	y, x := p.Grid.at(i, p.cfg.Merge)
	for t := range p.cfg.Temporal {
		pix := p.pix[0]
		if len(p.pix) > 1 {
			pix = p.pix[frame*p.cfg.Temporal+t]
		}
		for c := range 3 {
			out := dst[(c*p.cfg.Temporal+t)*n*n:][:n*n]
			for row := range n {
				src := pix[(y*n+row)*width+3*x*n+c:]
				for col := range n {
					out[row*n+col] = pixel[src[3*col]]
				}
			}
		}
	}
}

// at is row and column of patch i.
func (g Grid) at(i, merge int) (row, col int) {
	place, in := i/(merge*merge), i%(merge*merge)
	wide := g.W / merge
	return place/wide*merge + in/merge, place%wide*merge + in%merge
}

// pixel maps 0 to 255 to -1 to 1.
var pixel = func() (table [256]float32) {
	for i := range table {
		table[i] = (float32(i) - 127.5) / 127.5
	}
	return table
}()
