// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"windhover/appliance/disk"
)

// SyncInterval is how long a record may be in memory only, where not each is synced.
const SyncInterval = 5 * time.Second

const (
	queueSize   = 1024            // records that wait for the disk
	batch       = 64              // of them are written at once
	retryEvery  = 2 * time.Second // after an error
	settleLimit = 5 * time.Second // for which a caller waits
)

// Config says where records go.
type Config struct {
	Disk     disk.FS // nil: that of this machine
	Path     string
	MaxSize  int64 // bytes of a file
	Keep     int   // full files' worth of bytes kept; 0: all
	SyncEach bool  // each record is on the disk before Settle returns; else within SyncInterval
	// Tell is given what an operator wants to know, by one goroutine; nil: nobody does.
	Tell func(Notice)
	Now  func() time.Time // nil: time.Now
}

// Events of a Notice.
const (
	NoticeOpen    = "open"    // At is where the chain went on
	NoticeRepair  = "repair"  // File has an end that could not be read, Err says why; At is the record of it
	NoticeRotated = "rotated" // File is the full file, At the first record of the new one
	NoticeFailed  = "failed"  // Err
	NoticeWorks   = "works"   // again: Lost records are missing
	NoticeClosed  = "closed"  // At is the last record; Lost could not be written
)

// Notice is something that happened to the file. At is a place in the chain.
type Notice struct {
	Event string
	At    Place
	File  string
	Lost  uint64
	Err   error
}

// State is how a log is.
type State struct {
	Synced Place  // the last record that is on the disk
	Lost   uint64 // records that were not written, since the start
	Err    error  // why none can be written now; nil: they can
}

// Log takes records from any goroutine and writes them from one of its own.
type Log struct {
	cfg   Config
	chain chain
	queue chan entry
	stop  chan struct{}
	ended chan struct{}

	// mu guards what follows. It is held while a record is put into the queue, so that
	// times rise with numbers as long as the clock does.
	mu     sync.Mutex
	lost   uint64 // since the last gap was written
	since  time.Time
	until  time.Time
	closed bool

	synced  atomic.Pointer[Place]
	failure atomic.Pointer[failure]
	missing atomic.Uint64

	// Of the goroutine that writes.
	pending []entry
	timer   *time.Timer // nil: nothing is due
}

type failure struct{ error }

// entry is a record on its way. done is closed when it is on the disk or will not be.
type entry struct {
	record Record
	done   chan struct{} // nil: nobody waits
}

func (e entry) end() {
	if e.done != nil {
		close(e.done)
	}
}

// Open goes on with the chain at a path, which it reads the newest file of, and writes
// first. Where that is not possible now the log waits until it is: State says so.
// Close ends it.
func Open(cfg Config, first Record) *Log {
	if cfg.Disk == nil {
		cfg.Disk = disk.OS{}
	}
	if cfg.Tell == nil {
		cfg.Tell = func(Notice) {}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	l := &Log{cfg: cfg, queue: make(chan entry, queueSize), stop: make(chan struct{}), ended: make(chan struct{})}
	l.chain = chain{d: cfg.Disk, path: cfg.Path, maxSize: cfg.MaxSize, keep: cfg.Keep,
		tell: cfg.Tell}
	l.synced.Store(&Place{})
	l.Append(first)
	l.pending = []entry{<-l.queue}
	l.write()
	go l.run()
	return l
}

// Append takes a record, which gets the time of now. It never waits: a record for which
// there is no room is counted, and a gap stands in the file for it.
func (l *Log) Append(r Record) { l.put(entry{record: r}) }

// Settle is Append that waits, where each record is synced, until this one is; not for a
// disk that is known not to work, and a few seconds for one that hangs.
func (l *Log) Settle(r Record) {
	if !l.cfg.SyncEach || l.failure.Load() != nil {
		l.Append(r)
		return
	}
	e := entry{r, make(chan struct{})}
	l.put(e)
	limit := time.NewTimer(settleLimit)
	defer limit.Stop()
	select {
	case <-e.done:
	case <-limit.C:
	}
}

func (l *Log) put(e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.record.Time = l.cfg.Now()
	if !l.closed {
		select {
		case l.queue <- e:
			return
		default:
		}
	}
	l.lose(e.record.Time)
	e.end()
}

// lose counts a record. mu is held.
func (l *Log) lose(at time.Time) {
	if l.lost == 0 {
		l.since = at
	}
	l.lost, l.until = l.lost+1, at
	l.missing.Add(1)
}

// Ready says whether a record can be taken and written now.
func (l *Log) Ready() error {
	if f := l.failure.Load(); f != nil {
		return f.error
	}
	if len(l.queue) == cap(l.queue) {
		return errors.New("more records wait than the disk takes")
	}
	return nil
}

// State is how the log is now.
func (l *Log) State() State {
	s := State{Synced: *l.synced.Load(), Lost: l.missing.Load()}
	if f := l.failure.Load(); f != nil {
		s.Err = f.error
	}
	return s
}

// Close writes a last record and everything that waits, and ends the log. It returns
// when that is done or ctx ends.
func (l *Log) Close(ctx context.Context, last Record) error {
	l.Append(last)
	l.mu.Lock()
	again := l.closed
	l.closed = true
	l.mu.Unlock()
	if !again {
		close(l.stop)
	}
	select {
	case <-l.ended:
		return l.State().Err
	case <-ctx.Done():
		return fmt.Errorf("audit: the last records are not on the disk: %w", ctx.Err())
	}
}

// run writes until Close.
func (l *Log) run() {
	defer close(l.ended)
	for {
		queue := l.queue
		if l.failure.Load() != nil {
			queue = nil // they wait; the timer tries again
		}
		var due <-chan time.Time
		if l.timer != nil {
			due = l.timer.C
		}
		select {
		case e := <-queue:
			l.gather(e)
			l.write()
		case <-due:
			l.timer = nil
			if l.failure.Load() != nil {
				l.write()
			} else if err := l.sync(); err != nil {
				l.fail(err)
			}
		case <-l.stop:
			l.finish()
			return
		}
	}
}

// gather takes what waits behind a record.
func (l *Log) gather(e entry) {
	l.pending = append(l.pending, e)
	for len(l.pending) < batch {
		select {
		case e := <-l.queue:
			l.pending = append(l.pending, e)
		default:
			return
		}
	}
}

// write puts the pending records into the file, behind the gap that they make up for.
func (l *Log) write() {
	if err := l.try(); err != nil {
		l.fail(err)
	}
}

func (l *Log) try() error {
	l.chain.at = l.cfg.Now()
	if len(l.pending) > 0 {
		l.chain.at = l.pending[0].record.Time // before which nothing that is to be written came
	}
	if l.chain.f == nil {
		if err := l.chain.open(); err != nil {
			return errors.Join(err, l.chain.close())
		}
		l.publish()
		l.cfg.Tell(Notice{Event: NoticeOpen, At: l.chain.safe})
	}
	lost, err := l.gap()
	if err != nil {
		return err
	}
	records := make([]Record, len(l.pending))
	for i, e := range l.pending {
		records[i] = e.record
	}
	done, err := l.chain.append(records...)
	written := l.pending[:done]
	l.pending = l.pending[done:]
	if err == nil && l.cfg.SyncEach {
		err = l.sync()
	}
	for _, e := range written {
		e.end()
	}
	if err != nil {
		return err
	}
	l.publish()
	if l.failure.Swap(nil) != nil {
		l.cfg.Tell(Notice{Event: NoticeWorks, At: l.chain.safe, Lost: lost})
		l.disarm()
	}
	if l.timer == nil && l.chain.safe != l.chain.last {
		l.timer = time.NewTimer(SyncInterval)
	}
	return nil
}

// gap writes that records are missing, if any are.
func (l *Log) gap() (lost uint64, err error) {
	l.mu.Lock()
	lost, since, until := l.lost, l.since, l.until
	l.mu.Unlock()
	if lost == 0 {
		return 0, nil
	}
	reason := "more came than the disk took"
	if f := l.failure.Load(); f != nil {
		reason = f.Error()
	}
	r := Record{Time: l.chain.at, Kind: KindGap, Lost: lost, Reason: reason,
		Since: since.UTC().Format(timeFormat), Until: until.UTC().Format(timeFormat)}
	if _, err := l.chain.append(r); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost -= lost; l.lost > 0 {
		l.since = until
	}
	return lost, nil
}

// sync puts on the disk what was written.
func (l *Log) sync() error {
	if l.chain.f == nil {
		return nil
	}
	if err := l.chain.sync(); err != nil {
		// What the kernel does with pages that it could not write is not for us to know:
		// the file is read again.
		return errors.Join(err, l.chain.close())
	}
	l.publish()
	return nil
}

// publish shows which records are on the disk.
func (l *Log) publish() {
	safe := l.chain.safe
	l.synced.Store(&safe)
}

// fail notes that nothing can be written, and tries again after a while. What was written
// before is not left in memory until then.
func (l *Log) fail(err error) {
	err = errors.Join(err, l.sync())
	if l.failure.Swap(&failure{err}) == nil {
		l.cfg.Tell(Notice{Event: NoticeFailed, At: l.chain.safe, Err: err})
	}
	for i := range l.pending {
		l.pending[i].end()
		l.pending[i].done = nil
	}
	l.disarm()
	l.timer = time.NewTimer(retryEvery)
}

func (l *Log) disarm() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// finish writes what is left.
func (l *Log) finish() {
	l.disarm()
	for first := true; first || len(l.queue) > 0; first = false {
		select {
		case e := <-l.queue:
			l.gather(e)
		default:
		}
		if l.write(); l.failure.Load() != nil {
			break
		}
	}
	l.disarm()
	err := errors.Join(l.sync(), l.chain.close())
	if err != nil && l.failure.Load() == nil {
		l.failure.Store(&failure{err})
	}
	left := uint64(len(l.pending) + len(l.queue))
	for range len(l.queue) {
		(<-l.queue).end()
	}
	l.missing.Add(left)
	l.mu.Lock()
	left += l.lost
	l.mu.Unlock()
	var why error
	if f := l.failure.Load(); f != nil {
		why = f.error
	}
	l.cfg.Tell(Notice{Event: NoticeClosed, At: l.chain.safe, Lost: left, Err: why})
}
