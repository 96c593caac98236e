// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"context"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
)

// A pass over a file reads each byte once and shows it to several sinks, each in
// its own goroutine. Nobody waits for a slower one as long as there are pieces
// left: pieceCount of them are under way, so that a serial hash never stands
// still while the next bytes are read. A piece is small enough that cancelling
// takes no time and that it is still in a core's cache for the last sink.
const (
	pieceSize  = 256 << 10
	pieceCount = 16
)

// sink looks at bytes of a file and the offset they have in it. It must neither
// keep nor change them.
type sink func(at int64, p []byte)

// piece is a part of a file on its way through the sinks.
type piece struct {
	at    int64
	p     []byte // the bytes as they are stored
	plain []byte // deciphered: by a stage before ready is closed, or by who sends
	ready chan struct{}
	users atomic.Int32 // who still looks at it
	buf   []byte
	open  []byte // memory for plain
}

// fan hands pieces to sinks. get and send are for one goroutine; close waits for
// the sinks and must be called.
type fan struct {
	size   int // of a piece
	made   int
	staged bool
	free   chan *piece
	lanes  []chan *piece
	wg     sync.WaitGroup
}

// newFan starts a goroutine for each sink. The sinks of raw see the bytes as
// stored, in order. stage, if not nil, gets every piece, in several goroutines at
// once and in any order; after it the sinks of plain see piece.plain, in order.
// Without a stage, who sends says what is plain.
func newFan(size int, raw []sink, stage func(*piece), plain []sink) *fan {
	f := &fan{size: max(size, 1), free: make(chan *piece, pieceCount)}
	for _, s := range raw {
		f.lane(1, func(c *piece) { s(c.at, c.p) })
	}
	f.staged = stage != nil
	if f.staged {
		f.lane(runtime.GOMAXPROCS(0), func(c *piece) {
			stage(c)
			close(c.ready)
		})
	}
	for _, s := range plain {
		f.lane(1, func(c *piece) {
			if f.staged {
				<-c.ready
			}
			s(c.at, c.plain)
		})
	}
	return f
}

// lane starts n goroutines that share the pieces.
func (f *fan) lane(n int, do func(*piece)) {
	in := make(chan *piece, pieceCount) // as many as there are: sending never blocks
	f.lanes = append(f.lanes, in)
	for range n {
		f.wg.Go(func() {
			for c := range in {
				do(c)
				f.release(c)
			}
		})
	}
}

func (f *fan) release(c *piece) {
	if c.users.Add(-1) == 0 {
		f.free <- c
	}
}

// get returns a piece with size bytes of room in buf, or nil when ctx has ended.
func (f *fan) get(ctx context.Context) *piece {
	if ctx.Err() != nil {
		return nil
	}
	select {
	case c := <-f.free:
		return c
	default:
	}
	if f.made < pieceCount {
		f.made++
		return &piece{buf: make([]byte, f.size)}
	}
	select {
	case c := <-f.free:
		return c
	case <-ctx.Done():
		return nil
	}
}

// send gives the first n bytes of c.buf, which lie at offset at, to all sinks.
// plain is for the sinks of plain where no stage makes it.
func (f *fan) send(c *piece, at int64, n int, plain []byte) {
	c.at, c.p, c.plain = at, c.buf[:n], plain
	if f.staged {
		c.ready = make(chan struct{})
	}
	c.users.Store(int32(len(f.lanes)))
	for _, in := range f.lanes {
		in <- c
	}
}

// drain waits until every sink has seen all that was sent.
func (f *fan) drain() {
	all := make([]*piece, f.made)
	for i := range all {
		all[i] = <-f.free
	}
	for _, c := range all {
		f.free <- c
	}
}

// close waits until every sink has seen everything.
func (f *fan) close() {
	for _, in := range f.lanes {
		close(in)
	}
	f.wg.Wait()
	f.lanes = nil
}

// pass is one reading of the bytes from … to.
type pass struct {
	r        io.ReaderAt
	from, to int64
	raw      []sink
	stage    func(*piece) // as in newFan
	plain    []sink
	progress func(done, total int64) // may be nil; called by run's goroutine
	passed   func(at int64)          // may be nil: bytes before at will not be read again
}

// run reads, and returns when all sinks have seen all bytes, or on the first
// error; then they have seen the bytes up to some place.
func (s *pass) run(ctx context.Context) error {
	f := newFan(int(min(pieceSize, s.to-s.from)), s.raw, s.stage, s.plain)
	defer f.close()
	for at := s.from; at < s.to; {
		c := f.get(ctx)
		if c == nil {
			return ctx.Err()
		}
		n := int(min(int64(len(c.buf)), s.to-at))
		if err := readFull(s.r, c.buf[:n], at); err != nil {
			return err
		}
		f.send(c, at, n, nil)
		at += int64(n)
		if s.passed != nil {
			s.passed(at)
		}
		if s.progress != nil {
			s.progress(at-s.from, s.to-s.from)
		}
	}
	return ctx.Err()
}

// visit is a pass whose sinks all see the bytes as they are stored.
func visit(ctx context.Context, r io.ReaderAt, from, to int64, progress func(done, total int64), sinks ...sink) error {
	return (&pass{r: r, from: from, to: to, raw: sinks, progress: progress}).run(ctx)
}
