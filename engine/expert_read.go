// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"windhover/kernels"
	"windhover/vqf"
)

// expertLayout is where the experts lie in the file and in a slot. Gate and up of
// an expert are rows of the layer's matrix, and so one run of bytes. Its down is
// columns: a run in each row group, as far apart as all experts of a row group are
// wide (docs/FORMAT.md section 12).
type expertLayout struct {
	layers, perLayer, topK int

	gate, up region     // of expert 0 of layer 0
	down     expertRuns // of layer 0
	upAt     int64      // in the slot; gate is at 0
	downAt   int64
	bytes    int64         // of a slot
	bounce   int64         // of a worker, for runs on their way
	shape    expertWeights // without data
}

// expertRuns are the columns of one expert.
type expertRuns struct {
	base   int64 // of the tensor in the file
	layer  int64 // bytes of a layer
	stride int64 // from one row group to the next
	run    int64 // bytes of an expert in a row group
	groups int
}

func (r *expertRuns) bytes() int64 { return r.run * int64(r.groups) }

// at is where in the file the run of expert e in row group g of layer l begins.
func (r *expertRuns) at(l, e, g int) int64 {
	return r.base + int64(l)*r.layer + int64(g)*r.stride + int64(e)*r.run
}

// room is the pages that a run may lie in.
func (r *expertRuns) room() int64 { return slotRoom(r.run, vqf.PageAlign) }

const (
	// expertReaders is how many pieces are read at once, each with as many reads
	// as runs under way as queueDepth says.
	expertReaders = 4
	queueDepth    = 128
	// bounceBytes is what a worker reads runs into before they go to their slots.
	bounceBytes = 1 << 20
	// mergeGap is up to which distance two runs are read as one: what it costs a
	// disk to read as many bytes more is about what another read costs.
	mergeGap = 16 << 10
)

// place sets where in a slot the matrices are, and how large a worker's buffer is.
func (x *expertLayout) place() {
	x.upAt = slotRoom(x.gate.n, vqf.PageAlign)
	x.downAt = x.upAt + slotRoom(x.up.n, vqf.PageAlign)
	x.bytes = x.downAt + roundUp(x.down.bytes(), vqf.PageAlign)
	x.bounce = max(bounceBytes, slotRoom(x.down.stride, vqf.PageAlign))
}

// expertLayoutOf finds the experts in the file's directory. The sizes are those of
// whole layers, which bind holds against the shapes.
func expertLayoutOf(f *vqf.File, c *Config, family string, layout kernels.Layout) expertLayout {
	x := expertLayout{layers: c.Layers, perLayer: c.NExperts, topK: c.TopK}
	stack := func(name string) (base, layer int64) {
		t, _ := f.Tensor(family + "_" + name)
		return int64(t.Offset), int64(t.Bytes) / int64(c.Layers)
	}
	for name, r := range map[string]*region{"gate": &x.gate, "up": &x.up} {
		base, layer := stack(name)
		*r = region{name: family + "_" + name, base: base, n: layer / int64(c.NExperts)}
	}
	d := &x.down
	d.base, d.layer = stack("down")
	d.groups = c.Dim / layout.Rows()
	d.stride = d.layer / int64(d.groups)
	d.run = d.stride / int64(c.NExperts)
	wide := kernels.Matrix{Rows: c.MoEFFN, Cols: c.Dim, Layout: layout}
	x.shape = expertWeights{gate: wide, up: wide, down: kernels.Matrix{Rows: c.Dim, Cols: c.MoEFFN, Layout: layout}}
	x.place()
	return x
}

// expertSlots makes the slots of a mixture.
func (b *binder) expertSlots(n, workers int, stamps func() error) (*expertSlots, error) {
	for _, m := range b.c.expertStacks() {
		name := b.family + "_" + m.name
		if size := b.size(name, b.c.Layers*b.c.NExperts); b.err == nil && size != int64(b.c.Layers)*matrixBytes(m.rows, m.cols, b.layout) {
			b.fail("engine: tensor %q: %d bytes, want %d layers of %d x %d", name, size, b.c.Layers, m.rows, m.cols)
		}
	}
	if b.err != nil {
		return nil, b.err
	}
	pages, err := b.f.Pages()
	if err != nil {
		return nil, err
	}
	x, err := newExpertSlots(expertLayoutOf(b.f, b.c, b.family, b.layout), pages, n, max(workers, expertReaders), stamps)
	if err != nil {
		_ = pages.Close() // the first error tells more
	}
	return x, err
}

// matrixBytes is what a matrix takes in a layout.
func matrixBytes(rows, cols int, l kernels.Layout) int64 {
	return int64(rows) / int64(l.Rows()) * int64(cols) / kernels.BlockLen * int64(l.GroupBytes())
}

// groupBytes is the most that is read for n experts of a row group.
func (x *expertLayout) groupBytes(n int) int64 {
	return min(int64(n)*(x.down.room()+mergeGap), slotRoom(x.down.stride, vqf.PageAlign))
}

// piecesOf is how many pieces n experts are read in: gate and up of each, and row
// groups of down, of all experts together.
func (x *expertLayout) piecesOf(n int) int {
	per := x.groupsOf(n)
	return 2*n + (x.down.groups+per-1)/per
}

// groupsOf is how many row groups a piece has.
func (x *expertLayout) groupsOf(n int) int { return max(int(x.bounce/x.groupBytes(n)), 1) }

// expertReader is what a worker reads with.
type expertReader struct {
	queue  *vqf.PageQueue
	bounce []byte
	ranges []vqf.PageRange
	starts []int // of the ranges in bounce
}

func (x *expertSlots) reader(bounce []byte) *expertReader {
	most := int(x.bounce / vqf.PageAlign)
	return &expertReader{
		queue: x.pages.Queue(queueDepth), bounce: bounce,
		ranges: make([]vqf.PageRange, 0, most), starts: make([]int, 0, most),
	}
}

// piece reads piece k of the job and returns how many bytes that were.
func (x *expertSlots) piece(r *expertReader, k int) (n int64, err error) {
	defer func() { faultError(&err, recover()) }()
	j := &x.job
	if k >= 2*len(j.ids) {
		return x.readDown(r, k-2*len(j.ids))
	}
	sl := &x.slots[j.into[k/2]]
	unit := j.layer*x.perLayer + int(j.ids[k/2])
	reg, m, at := x.gate.of(unit), &sl.w.gate, int64(0)
	if k%2 == 1 {
		reg, m, at = x.up.of(unit), &sl.w.up, x.upAt
	}
	begin := reg.base + reg.off
	shift := reg.shift(vqf.PageAlign)
	length := roundUp(shift+reg.n, vqf.PageAlign)
	m.Data = sl.mem[at+shift:][:reg.n:reg.n]
	if err := x.pages.Read(vqf.PageRange{At: begin - shift, Dst: sl.mem[at:][:length], Min: int(shift + reg.n)}); err != nil {
		return 0, err
	}
	x.pages.Decipher(m.Data, begin)
	return length, nil
}

// readDown reads the runs of all experts of the job in row groups that belong to
// piece k. Runs that are near each other in the file are read as one.
func (x *expertSlots) readDown(r *expertReader, k int) (int64, error) {
	j, d := &x.job, &x.down
	per := x.groupsOf(len(j.ids))
	g0, g1 := k*per, min((k+1)*per, d.groups)
	r.ranges, r.starts = r.ranges[:0], r.starts[:0]
	used := 0
	for g := g0; g < g1; g++ {
		for _, e := range j.ids {
			begin := d.at(j.layer, int(e), g)
			end := begin + d.run
			lo, hi := begin/vqf.PageAlign*vqf.PageAlign, roundUp(end, vqf.PageAlign)
			if n := len(r.ranges); n > 0 {
				if last := &r.ranges[n-1]; lo <= last.At+int64(len(last.Dst))+mergeGap {
					used = r.starts[n-1] + int(hi-last.At)
					last.Dst, last.Min = r.bounce[r.starts[n-1]:used], int(end-last.At)
					continue
				}
			}
			r.ranges = append(r.ranges, vqf.PageRange{At: lo, Dst: r.bounce[used:][:hi-lo], Min: int(end - lo)})
			r.starts = append(r.starts, used)
			used += int(hi - lo)
		}
	}
	if err := r.queue.Read(r.ranges); err != nil {
		return 0, err
	}
	i := 0
	for g := g0; g < g1; g++ {
		for k, e := range j.ids {
			begin := d.at(j.layer, int(e), g)
			for begin >= r.ranges[i].At+int64(len(r.ranges[i].Dst)) {
				i++
			}
			dst := x.slots[j.into[k]].w.down.Data[int64(g)*d.run:][:d.run]
			copy(dst, r.ranges[i].Dst[begin-r.ranges[i].At:])
			x.pages.Decipher(dst, begin)
		}
	}
	return int64(used), nil
}
