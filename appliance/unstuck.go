// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
)

// unstuck lets nobody wait for a log that takes nothing: a pipe whose reader stands
// still, a journal that does. What is to be written then is lost, and counted.
type unstuck struct {
	patience time.Duration // for one record

	mu   sync.Mutex // guards what follows
	busy bool       // one is being written
	lost uint64
}

// logPatience is how long a log may take for one record.
const logPatience = time.Second

// errStuck says that a record is lost, or may be written much later.
var errStuck = errors.New("the log takes nothing")

// run writes one record. What do writes must be its own: it may be at work long after.
func (u *unstuck) run(do func() error) error {
	u.mu.Lock()
	if u.busy {
		u.lost++
		u.mu.Unlock()
		return errStuck
	}
	u.busy = true
	u.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		err := do()
		u.mu.Lock()
		u.busy = false
		u.mu.Unlock()
		done <- err
	}()
	late := time.NewTimer(u.patience)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		return errStuck
	}
}

// gone is how many records are lost, of which nobody was told.
func (u *unstuck) gone() uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.busy {
		return 0 // nor would anybody hear of it
	}
	n := u.lost
	u.lost = 0
	return n
}

// unstuckWriter writes so.
type unstuckWriter struct {
	*unstuck
	w io.Writer
}

// Write implements io.Writer, for one record a call.
func (w unstuckWriter) Write(p []byte) (int, error) {
	own := bytes.Clone(p)
	err := w.run(func() error { _, err := w.w.Write(own); return err })
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// sender is a way to the journal that does so.
func (u *unstuck) sender(send sendFunc) sendFunc {
	return func(message string, p journal.Priority, fields map[string]string) error {
		return u.run(func() error { return send(message, p, fields) })
	}
}

// sendFunc gives a record to the journal.
type sendFunc = func(message string, p journal.Priority, fields map[string]string) error
