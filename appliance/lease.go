// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A file that was dropped by the daemon's own user enters the store as a hard
// link, so the dropped name still leads to the pages that compute. Whoever opens
// that name for writing (cp onto it, as root, does) would change them under a
// running model. A read lease makes the kernel hold such an open back, up to
// /proc/sys/fs/lease-break-time (45 s), and send SIGIO: time enough to move the
// model to a copy of its own.

// errChanged is the error of working on a file that is being written to.
var errChanged = errors.New("the file is being written to")

// leases holds back writers of stored files.
type leases struct {
	mu   sync.Mutex // guards held
	held map[*guard]struct{}
}

func newLeases() *leases { return &leases{held: map[*guard]struct{}{}} }

// guard is a lease on one file. A nil guard belongs to a file that needs none.
type guard struct {
	ls *leases
	f  *os.File

	mu     sync.Mutex // guards what follows
	leased bool
	broken bool          // a writer came
	act    func()        // what to do before he may go on
	acted  chan struct{} // closed when act has returned; nil before it begins
}

// guardShared guards the stored file at path if other names lead to it. The error
// is errChanged while somebody writes to it, else that of a file system without
// leases.
func (ls *leases) guardShared(path string) (*guard, error) {
	f, fi, err := openPlain(path)
	if err != nil {
		return nil, err
	}
	if !shared(fi) {
		return nil, f.Close()
	}
	g := &guard{ls: ls, f: f}
	g.mu.Lock()
	defer g.mu.Unlock()
	ls.mu.Lock()
	ls.held[g] = struct{}{} // before the lease, or its first signal would find nobody
	ls.mu.Unlock()
	err = setLease(f, unix.F_RDLCK)
	if err == nil {
		g.leased = true
		return g, nil
	}
	ls.forget(g)
	if errors.Is(err, syscall.EAGAIN) {
		err = errChanged
	}
	return nil, errors.Join(err, f.Close())
}

// shared reports whether a file has more than one name.
func shared(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && st.Nlink > 1
}

func (ls *leases) forget(g *guard) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(ls.held, g)
}

// watch answers the signals of the kernel until ctx ends.
func (ls *leases) watch(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals: // of which file it does not say
			ls.mu.Lock()
			all := make([]*guard, 0, len(ls.held))
			for g := range ls.held {
				all = append(all, g)
			}
			ls.mu.Unlock()
			for _, g := range all {
				g.check()
			}
		}
	}
}

// check finds out whether a writer waits, and begins to act.
func (g *guard) check() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.leased || g.broken {
		return
	}
	// While a lease is being broken this is what it has to become.
	kind, err := unix.FcntlInt(g.f.Fd(), unix.F_GETLEASE, 0)
	if err == nil && kind == unix.F_RDLCK {
		return
	}
	g.broken = true
	if g.act == nil {
		g.letGo()
		return
	}
	g.acted = make(chan struct{})
	go func(act func(), acted chan struct{}) {
		defer close(acted)
		act()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.letGo()
	}(g.act, g.acted)
}

// letGo ends the lease: a writer goes on. mu is held.
func (g *guard) letGo() {
	if g.leased {
		g.leased = false
		_ = setLease(g.f, unix.F_UNLCK) // closing the file does the same
	}
}

// onBreak says what to do when a writer comes: act runs once, in a goroutine of
// its own, and the writer waits for it. It reports false if one came already.
func (g *guard) onBreak(act func()) bool {
	if g == nil {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.act = act
	return !g.broken
}

// intact reports whether no writer has come.
func (g *guard) intact() bool {
	if g == nil {
		return true
	}
	g.check() // the signal may still be on its way
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.broken
}

// release ends the guard, after act where that has begun. act must not call it.
func (g *guard) release() {
	if g == nil {
		return
	}
	g.mu.Lock()
	acted := g.acted
	g.act = nil
	if acted == nil {
		g.letGo()
		g.broken = true // nothing acts from here on
	}
	g.mu.Unlock()
	if acted != nil {
		<-acted
	}
	g.ls.forget(g)
	_ = g.f.Close() // read only
}

// unwritten reports whether a file is still what it was when it was looked at.
func unwritten(f *os.File, before fileID) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if identify(fi).content() != before.content() {
		return fmt.Errorf("%s: %w", f.Name(), errChanged)
	}
	return nil
}
