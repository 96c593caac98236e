// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"windhover/kernels"
	"windhover/vqf"
)

// slotCount is how many pieces of weights are in memory beside those that are
// kept: one in use and one on its way. A third would not make anything faster:
// while deciphering is the slower of the two, it never waits with two either, and
// while computing is, the next piece is there in time.
const slotCount = 2

// pieceBytes is read and deciphered at once: it stays in a core's cache between
// the two, and a cancelled pass waits for no more than one a worker. directBytes
// is that for a plain file, of which nothing is deciphered.
const (
	pieceBytes  = 256 << 10
	directBytes = 1 << 20
)

// tensorReader is the part of a vqf.File that streamed needs.
type tensorReader interface {
	ReadTensor(name string, off int64, dst []byte) error
	Stamp() (vqf.Stamp, error)
}

// streamed has the weights of a file that does not fit, and of every encrypted
// one. A unit is a layer, or a part of the head: as many rows as fit the memory of
// a layer. Units that admission keeps are there from the start: deciphered once, or
// views of the mapping of a plain file. In full residency those are all. The others
// share slots: workers bring in the next ones, in the order of the decoder and
// round again, while the forward pass uses one. Rows of the embedding table are
// read on look-up, some kilobytes a token.
//
// Slots are anonymous memory outside the Go heap, taken at load and left out of
// core dumps; nothing is allocated for them afterwards. A plain file is read into
// them past the page cache: the pages that hold a matrix, whole, so that nothing is
// copied and nothing else is pushed out of memory. An encrypted file has been
// verified before anything of it gets here.
type streamed struct {
	file    tensorReader
	whole   *vqf.File
	pages   *vqf.Pages     // of whole where it is not encrypted; else nil
	mixture *expertSlots   // of a mixture of experts; else nil
	lm      region         // the head
	layers  []layerWeights // for their vectors
	cuts    []headPart     // of the head
	units   int            // layers, then parts of the head
	row     []byte         // embedding row
	shape   slotShape
	mem     []byte

	slots []slot
	kept  []slot
	order []int // units that are not kept, in the order of the decoder
	first []int // [units] index in order of the first unit from this one on

	ended sync.WaitGroup
	count atomic.Int64 // bytes that have come

	// mu guards what follows, the units of slots, and at.
	mu      sync.Mutex
	posted  sync.Cond // there is a piece to do, or closing
	arrived sync.Cond // a unit is there, or failed
	at      []*slot   // [units] where a unit is; nil: nowhere
	next    int       // index in order of the unit that is used, or else of the first that will be; -1: before any
	stop    *atomic.Bool
	closing bool
	stamp   vqf.Stamp // of the file that was verified

	job     *slot // being filled; nil when the workers have nothing to do
	unit    int   // with what
	reading pieces

	failed     error // of failedUnit; nothing is begun until it was asked for again
	failedUnit int
}

// slot is the memory of one unit.
type slot struct {
	mem  []byte
	unit int          // -1: none
	w    layerWeights // views of mem, for a layer
	lm   kernels.Matrix
}

// enter makes u the unit in use and waits until it is there.
func (s *streamed) enter(u int, stop *atomic.Bool) (*slot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop = stop
	if len(s.order) == 0 {
		return s.at[u], nil
	}
	s.next = s.first[u]
	// What fails that was begun before it was needed is tried once more, also
	// when it fails only now.
	s.failed = nil
	ahead := s.job != nil
	s.begin()
	for s.at[u] == nil {
		if s.failed != nil && s.failedUnit == u && !ahead {
			return nil, s.failed
		}
		if s.failed != nil {
			s.failed, ahead = nil, false
			s.begin()
			continue
		}
		s.arrived.Wait()
	}
	return s.at[u], nil
}

// wanted is the index of the k-th unit in order from the one in use on.
func (s *streamed) wanted(k int) int { return s.order[(s.next+k)%len(s.order)] }

// begin lets the workers fill a slot with the first unit that is wanted and not
// there, if they have nothing to do. mu is held.
func (s *streamed) begin() {
	if s.job != nil || s.failed != nil || s.closing || s.next < 0 {
		return
	}
	for k := range s.slots {
		if u := s.wanted(k); s.at[u] == nil {
			s.fill(s.spare(), u)
			return
		}
	}
}

// spare is a slot whose unit nobody wants. There is one whenever one that is
// wanted is not there, because as many are wanted as there are slots.
func (s *streamed) spare() *slot {
	for i := range s.slots {
		sl, wanted := &s.slots[i], false
		for k := range s.slots {
			wanted = wanted || sl.unit == s.wanted(k)
		}
		if !wanted {
			return sl
		}
	}
	panic("engine: internal error: every slot is wanted")
}

// fill posts a unit. mu is held.
func (s *streamed) fill(sl *slot, u int) {
	if sl.unit >= 0 {
		s.at[sl.unit] = nil
	}
	sl.unit = -1
	s.job, s.unit, s.reading = sl, u, pieces{}
	if u < len(s.layers) {
		s.reading.all = len(s.shape.pieces)
		sl.w.setVectors(&s.layers[u])
		mats := sl.w.all()
		for i := range s.shape.mats {
			r, m := &s.shape.mats[i], mats[i]
			at := r.of(u)
			m.Data = sl.mem[r.at+at.shift(s.shape.page):][:r.n:r.n]
		}
	} else {
		r := s.part(u)
		sl.lm.Data, sl.lm.Rows = sl.mem[r.shift(s.shape.page):][:r.n:r.n], s.cuts[u-len(s.layers)].rows
		s.reading.all = int((slotRoom(r.n, s.shape.page) + s.shape.piece - 1) / s.shape.piece)
	}
	s.posted.Broadcast()
}

// work deciphers pieces until the residency is closed.
func (s *streamed) work() {
	defer s.ended.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for !s.closing && !s.reading.left() {
			s.posted.Wait()
		}
		if s.closing {
			return
		}
		sl, u, k := s.job, s.unit, s.reading.take()
		var err error
		if s.stop != nil && s.stop.Load() {
			err = errStopped
		} else {
			s.mu.Unlock()
			err = s.readPiece(sl, u, k)
			s.mu.Lock()
		}
		s.finish(err)
	}
}

// finish counts a piece; the last one settles what becomes of the unit. mu is held.
func (s *streamed) finish(err error) {
	if !s.reading.ended(err) {
		return
	}
	sl, u := s.job, s.unit
	s.job = nil
	if err = s.reading.err; err == nil {
		err = s.unchanged()
	}
	if err != nil {
		s.failed, s.failedUnit = err, u
	} else {
		sl.unit, s.at[u] = u, sl
		s.begin()
	}
	s.arrived.Broadcast()
}

// unchanged says whether what was read up to now is of the file that was verified.
// mu is held.
func (s *streamed) unchanged() error {
	now, err := s.file.Stamp()
	if err == nil && now != s.stamp {
		err = ErrChanged
	}
	return err
}

// part is what unit u is of the head.
func (s *streamed) part(u int) region {
	r := s.lm
	p := &s.cuts[u-len(s.layers)]
	r.off, r.n = p.off, p.bytes
	return r
}

// unchangedNow is unchanged for who does not hold mu.
func (s *streamed) unchangedNow() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unchanged()
}

// readPiece fills piece k of a unit.
func (s *streamed) readPiece(sl *slot, u, k int) (err error) {
	defer func() { faultError(&err, recover()) }()
	if u >= len(s.layers) {
		return s.fetch(s.part(u), sl.mem, int64(k)*s.shape.piece)
	}
	p := s.shape.pieces[k]
	m := &s.shape.mats[p.mat]
	return s.fetch(m.of(u), sl.mem[m.at:], p.off)
}

// fetch reads a piece of a region from offset from in it on.
func (s *streamed) fetch(r region, mem []byte, from int64) error {
	if s.pages == nil {
		to := min(from+s.shape.piece, r.n)
		if from >= to {
			return nil
		}
		if err := s.file.ReadTensor(r.name, r.off+from, mem[from:to]); err != nil {
			return err
		}
		s.count.Add(to - from)
		return nil
	}
	begin := r.base + r.off
	end := begin + r.n
	at := begin/vqf.PageAlign*vqf.PageAlign + from
	to := min(at+s.shape.piece, roundUp(end, vqf.PageAlign))
	if at >= to {
		return nil
	}
	if err := s.pages.Read(vqf.PageRange{At: at, Dst: mem[from:][:to-at], Min: int(min(to, end) - at)}); err != nil {
		return err
	}
	s.count.Add(to - at)
	return nil
}

func (s *streamed) layer(l int, stop *atomic.Bool) (*layerWeights, error) {
	sl, err := s.enter(l, stop)
	if err != nil {
		return nil, weightsError(err, "layer", l)
	}
	return &sl.w, nil
}

func (s *streamed) experts(l int, ids []int32, stop *atomic.Bool) ([]expertWeights, error) {
	w, err := s.mixture.take(l, ids, stop)
	if err != nil {
		return nil, weightsError(err, "experts of layer", l)
	}
	return w, nil
}

func (s *streamed) read() int64 {
	n := s.count.Load()
	if s.mixture != nil {
		n += s.mixture.count()
	}
	return n
}

func (s *streamed) parts() int { return len(s.cuts) }

func (s *streamed) head(i int, stop *atomic.Bool) (*kernels.Matrix, int, error) {
	sl, err := s.enter(len(s.layers)+i, stop)
	if err != nil {
		return nil, 0, weightsError(err, "head, part", i)
	}
	return &sl.lm, s.cuts[i].row, nil
}

// weightsError says which weights could not be read; a pass that is stopped says
// only that.
func weightsError(err error, what string, i int) error {
	if errors.Is(err, errStopped) {
		return errStopped
	}
	return fmt.Errorf("engine: weights of %s %d: %w", what, i, err)
}

func (s *streamed) embedding(id int32) ([]byte, error) {
	err := s.file.ReadTensor("token_embed", int64(id)*int64(len(s.row)), s.row)
	if err == nil {
		s.mu.Lock()
		err = s.unchanged()
		s.mu.Unlock()
	}
	if err != nil {
		return nil, fmt.Errorf("engine: embedding of token %d: %w", id, err)
	}
	return s.row, nil
}

// move keeps the workers from looking at the file's stamp while it changes. What
// they are reading comes from one file or the other, which hold the same bytes.
func (s *streamed) move(rebase func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.unchanged(); err != nil {
		return err
	}
	if err := rebase(); err != nil {
		return err
	}
	if s.pages != nil {
		if err := s.pages.Follow(s.whole); err != nil {
			return err
		}
	}
	if s.mixture != nil {
		if err := s.mixture.pages.Follow(s.whole); err != nil {
			return err
		}
	}
	var err error
	s.stamp, err = s.file.Stamp()
	return err
}

// close ends the workers, which finish the pieces in their hands, and gives the
// memory back.
func (s *streamed) close() error {
	s.mu.Lock()
	s.closing = true
	s.posted.Broadcast()
	s.mu.Unlock()
	s.ended.Wait()
	if s.pages != nil {
		_ = s.pages.Close() // only read from
	}
	var err error
	if s.mixture != nil {
		err = s.mixture.close()
	}
	mem := s.mem
	s.mem = nil
	if mem == nil {
		return err
	}
	if uerr := unix.Munmap(mem); uerr != nil {
		err = fmt.Errorf("engine: weights: %w", uerr)
	}
	return err
}
