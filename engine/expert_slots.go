// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"windhover/vqf"
)

// expertSlots has the experts of a mixture that does not fit memory, and of every
// encrypted one. Each that is there lies in a slot, its three matrices one after
// the other; down, whose columns are apart in the file, compact. Those that a layer
// asks for and that are not there are read, all at once; when a layer has more to
// do than there is room for, as a long prompt has, the next ones come in while the
// first are computed with.
//
// Most slots are kept by a layer for the experts that it used most of late; the
// others are loose: what was read into them is the next to go, unless it was used
// more than one that is kept, which it then takes the place of. A single list by last use over all layers would
// hold nothing: by the time that a token has gone through the layers, what
// the next one could use again is what was used longest ago.
type expertSlots struct {
	expertLayout
	pages  *vqf.Pages
	stamps func() error // says whether the file is the one that was verified
	mem    []byte

	ended sync.WaitGroup

	// mu guards what follows.
	mu      sync.Mutex
	posted  sync.Cond // there is a piece to do, or closing
	arrived sync.Cond // a job ended
	slots   []expertSlot
	at      []int32   // [layers*experts] slot, -1: none
	score   []float64 // [layers*experts] uses, those of late count more
	inc     float64   // what a use counts now
	kept    [][]int32 // [layers] slots
	keep    int       // slots that the layers may keep together
	loose   []int32   // the other slots
	room    int       // loose slots that what is returned at once may take
	uses    int64     // number of the present call
	held    []int32   // slots that the last call returned
	out     []expertWeights
	wanted  []bool // [experts] asked for in this call or to be asked for after it
	stop    *atomic.Bool
	closing bool

	job       expertJob
	bytesRead int64
	misses    int64 // experts that a call waited for
}

// expertSlot is the memory of one expert.
type expertSlot struct {
	mem  []byte
	unit int // layer*experts + expert; -1: none
	w    expertWeights

	busy  bool  // being read into
	held  bool  // in use by the present call
	loose bool  // not kept by a layer
	used  int64 // number of the last call that returned it
}

// expertJob is experts of a layer that are being read.
type expertJob struct {
	layer   int
	ids     []int32 // ascending
	into    []int32 // slots
	stop    *atomic.Bool
	reading pieces // all is 0 when there is no job
}

// scoreDecay is what uses lose in weight with each pass over the layers: half of it
// in about 20.
const scoreDecay = 1.035

// take returns the weights of ids[:n], n at least 1, until the next call, and
// begins to read some of the rest. ids are ascending.
func (x *expertSlots) take(l int, ids []int32, stop *atomic.Bool) ([]expertWeights, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stop = stop
	x.release()
	x.uses++
	x.begin(l, ids)
	x.wait() // for what was read ahead: it may be some of these
	n := x.fits(l, ids)
	x.hold(l, ids[:n])
	if x.start(l, ids[:n], true) > 0 {
		x.wait()
		if err := x.job.reading.err; err != nil {
			return nil, err
		}
		x.hold(l, ids[:n])
	}
	x.out = x.out[:0]
	for _, e := range ids[:n] {
		sl := &x.slots[x.at[l*x.perLayer+int(e)]]
		sl.used = x.uses
		x.out = append(x.out, sl.w)
	}
	if rest := ids[n:]; len(rest) > 0 {
		x.start(l, rest[:x.fits(l, rest)], false)
	}
	return x.out, nil
}

// begin counts the uses of a call. mu is held.
func (x *expertSlots) begin(l int, ids []int32) {
	if l == 0 {
		x.inc *= scoreDecay
		if x.inc > 1e100 {
			for i := range x.score {
				x.score[i] /= x.inc
			}
			x.inc = 1
		}
	}
	clear(x.wanted)
	for _, e := range ids {
		x.wanted[e] = true
	}
}

// hold keeps those of ids that are there. mu is held.
func (x *expertSlots) hold(l int, ids []int32) {
	for _, e := range ids {
		if i := x.at[l*x.perLayer+int(e)]; i >= 0 && !x.slots[i].held {
			x.slots[i].held = true
			x.held = append(x.held, i)
		}
	}
}

// fits is how many of ids can be there together: what is kept needs no loose slot. mu
// is held.
func (x *expertSlots) fits(l int, ids []int32) int {
	taken := 0
	for n, e := range ids {
		if i := x.at[l*x.perLayer+int(e)]; i < 0 || x.slots[i].loose {
			if taken++; taken > x.room {
				return n
			}
		}
	}
	return len(ids)
}

// release lets go of what the last call returned. What was used more of late than
// something that its layer keeps takes the place of that. mu is held.
func (x *expertSlots) release() {
	for _, i := range x.held {
		sl := &x.slots[i]
		sl.held = false
		x.score[sl.unit] += x.inc
	}
	for _, i := range x.held {
		sl := &x.slots[i]
		if !sl.loose {
			continue
		}
		kept := &x.kept[sl.unit/x.perLayer]
		if len(*kept) < x.quota(sl.unit/x.perLayer) {
			*kept = append(*kept, i)
			x.tighten(i)
			continue
		}
		least := -1
		for k, j := range *kept {
			if least < 0 || x.score[x.slots[j].unit] < x.score[x.slots[(*kept)[least]].unit] {
				least = k
			}
		}
		if least < 0 || x.score[x.slots[(*kept)[least]].unit] >= x.score[sl.unit] {
			continue
		}
		x.tighten(i)
		x.loosen((*kept)[least])
		(*kept)[least] = i
	}
	x.held = x.held[:0]
}

func (x *expertSlots) loosen(i int32) {
	x.slots[i].loose = true
	x.loose = append(x.loose, i)
}

func (x *expertSlots) tighten(i int32) {
	x.slots[i].loose = false
	for k, j := range x.loose {
		if j == i {
			x.loose[k] = x.loose[len(x.loose)-1]
			x.loose = x.loose[:len(x.loose)-1]
			return
		}
	}
}

// start begins to read those of ids that are not there, if nothing is being read,
// and returns how many. must says that there has to be room for them; what is
// read ahead leaves alone what will be asked for. mu is held.
func (x *expertSlots) start(l int, ids []int32, must bool) int {
	j := &x.job
	if j.reading.all > 0 || x.closing {
		return 0
	}
	j.ids, j.into = j.ids[:0], j.into[:0]
	for _, e := range ids {
		if x.at[l*x.perLayer+int(e)] >= 0 {
			continue
		}
		i := x.spare(l, must)
		if i < 0 {
			if must {
				panic("engine: internal error: no room for an expert")
			}
			break
		}
		sl := &x.slots[i]
		if sl.unit >= 0 {
			x.at[sl.unit] = -1
		}
		sl.unit, sl.busy = -1, true
		j.ids, j.into = append(j.ids, e), append(j.into, i)
	}
	if len(j.ids) == 0 {
		return 0
	}
	if must {
		x.misses += int64(len(j.ids))
	}
	j.layer, j.stop, j.reading = l, x.stop, pieces{all: x.piecesOf(len(j.ids))}
	x.posted.Broadcast()
	return len(j.ids)
}

// spare is a loose slot: an empty one, else of those that nobody waits for the
// one that was not used for longest. What is wanted later in this layer goes last. -1: none.
// mu is held.
func (x *expertSlots) spare(l int, must bool) int32 {
	best, later := int32(-1), false
	for _, i := range x.loose {
		sl := &x.slots[i]
		if sl.busy || sl.held {
			continue
		}
		if sl.unit < 0 {
			return i
		}
		soon := sl.unit/x.perLayer == l && x.wanted[sl.unit%x.perLayer] && sl.used != x.uses
		if best < 0 || later && !soon || later == soon && sl.used < x.slots[best].used {
			best, later = i, soon
		}
	}
	if later && !must {
		return -1
	}
	return best
}

// wait waits until nothing is being read. mu is held.
func (x *expertSlots) wait() {
	for x.job.reading.all > 0 {
		x.arrived.Wait()
	}
}

// work does pieces until the store is closed.
func (x *expertSlots) work(r *expertReader) {
	defer x.ended.Done()
	defer r.queue.Close()
	x.mu.Lock()
	defer x.mu.Unlock()
	j := &x.job
	for {
		for !x.closing && !j.reading.left() {
			x.posted.Wait()
		}
		if x.closing {
			return
		}
		k := j.reading.take()
		var n int64
		var err error
		if j.stop != nil && j.stop.Load() {
			err = errStopped
		} else {
			x.mu.Unlock()
			n, err = x.piece(r, k)
			x.mu.Lock()
		}
		x.bytesRead += n
		x.finish(err)
	}
}

// finish counts a piece; the last one ends the job. mu is held.
func (x *expertSlots) finish(err error) {
	j := &x.job
	if !j.reading.ended(err) {
		return
	}
	if err = j.reading.err; err == nil {
		err = x.stamps()
	}
	for k, i := range j.into {
		sl := &x.slots[i]
		sl.busy = false
		if err == nil {
			sl.unit = j.layer*x.perLayer + int(j.ids[k])
			x.at[sl.unit] = i
		}
	}
	j.reading = pieces{err: err}
	x.arrived.Broadcast()
}

// newExpertSlots takes the memory of n slots and starts the workers.
func newExpertSlots(layout expertLayout, pages *vqf.Pages, n, workers int, stamps func() error) (*expertSlots, error) {
	x := &expertSlots{expertLayout: layout, pages: pages, stamps: stamps, inc: 1}
	x.posted.L, x.arrived.L = &x.mu, &x.mu
	units := x.layers * x.perLayer
	x.at, x.score, x.wanted = make([]int32, units), make([]float64, units), make([]bool, x.perLayer)
	for i := range x.at {
		x.at[i] = -1
	}
	x.plan(n)
	buffers := int64(workers) * x.bounce
	mem, err := unix.Mmap(-1, 0, int(int64(n)*x.bytes+buffers), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("engine: %d bytes for experts: %w", int64(n)*x.bytes+buffers, err)
	}
	x.mem = mem
	adviseSlots(mem)
	x.slots = make([]expertSlot, n)
	x.loose = make([]int32, 0, n)
	for i := range x.slots {
		x.slots[i] = expertSlot{mem: mem[:x.bytes:x.bytes], unit: -1}
		x.slots[i].w = x.shape
		x.slots[i].w.down.Data = x.slots[i].mem[x.downAt:][:x.down.bytes()]
		mem = mem[x.bytes:]
		x.loosen(int32(i))
	}
	for range workers {
		r := x.reader(mem[:x.bounce:x.bounce])
		mem = mem[x.bounce:]
		x.ended.Add(1)
		go func() {
			debug.SetPanicOnFault(true)
			x.work(r)
		}()
	}
	return x, nil
}

// plan shares n slots out: a quarter, and at least what two calls of a decoded token
// need, is loose; the layers keep the others, as equally as they can.
func (x *expertSlots) plan(n int) {
	loose := max(n/4, 2*x.topK)
	x.keep = max(n-loose, 0)
	if n >= x.layers*x.perLayer {
		x.keep = n
	}
	x.room = max(min(loose, n)/2, 1)
	x.kept = make([][]int32, x.layers)
	for l := range x.kept {
		x.kept[l] = make([]int32, 0, x.quota(l))
	}
	most := x.perLayer
	x.held, x.out = make([]int32, 0, most), make([]expertWeights, 0, most)
	x.job.ids, x.job.into = make([]int32, 0, most), make([]int32, 0, most)
}

// count is how many bytes were read.
func (x *expertSlots) count() int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.bytesRead
}

// quota is how many slots layer l may keep.
func (x *expertSlots) quota(l int) int {
	return min(x.keep*(l+1)/x.layers-x.keep*l/x.layers, x.perLayer)
}

// close ends the workers, which finish the pieces in their hands, and gives the
// memory back.
func (x *expertSlots) close() error {
	x.mu.Lock()
	x.closing = true
	x.posted.Broadcast()
	x.mu.Unlock()
	x.ended.Wait()
	_ = x.pages.Close() // only read from
	mem := x.mem
	x.mem = nil
	if err := unix.Munmap(mem); err != nil {
		return fmt.Errorf("engine: experts: %w", err)
	}
	return nil
}
