// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"windhover/vqf"
)

// checkpointEvery is how much work a kill may cost. Each checkpoint waits for
// the storage, beside the work.
const checkpointEvery = 5 * time.Second

// begin starts the file, or continues one. How far an earlier conversion came
// shows in the pipeline and the tallies.
func (j *work) begin(ctx context.Context, p *pipeline) (*vqf.Writer, error) {
	path := JournalName(j.dst)
	j.tallies = newTallies(p)
	if !j.set.Resume {
		was, err := vqf.RemovePartial(j.dst)
		if err != nil {
			return nil, fmt.Errorf("convert: %w", err)
		}
		if was {
			j.note("an unfinished conversion of the same file was removed; --resume would have continued it, had all else been the same")
		}
		if err := removeJournal(path); err != nil {
			return nil, err
		}
		return j.writer(vqf.CreateWith(j.dst, j.plan, j.keys()))
	}
	fresh, err := j.newJournal()
	if err != nil {
		return nil, err
	}
	fresh.Errors, j.journal = j.tallies, fresh
	old := readJournal(path)
	if old != nil {
		w, err := j.resume(ctx, p, old)
		if w != nil || err != nil {
			return w, err
		}
	}
	// The journal goes first: alone it continues nothing.
	if err := removeJournal(path); err != nil {
		return nil, err
	}
	return j.writer(vqf.CreatePartialWith(j.dst, j.plan, j.keys()))
}

func (j *work) keys() vqf.CreateOptions {
	return vqf.CreateOptions{Key: j.set.Encrypt, Sign: j.set.Sign, SignID: j.set.SignID}
}

func (j *work) writer(w *vqf.Writer, err error) (*vqf.Writer, error) {
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	return w, nil
}

// resume continues what old tells of. It returns nil without an error, and leaves
// a note, when the work has to be begun anew.
func (j *work) resume(ctx context.Context, p *pipeline, old *journal) (*vqf.Writer, error) {
	anew := func(why string) { j.note("an unfinished conversion was not continued but begun anew: " + why) }
	if why := j.journal.differs(old); why != "" {
		anew(why)
		return nil, nil
	}
	w, err := vqf.ResumeWith(ctx, j.dst, j.plan, old.Mark, j.keys(), func(done, _ int64) { j.progress(done, j.total()) })
	if errors.Is(err, vqf.ErrResume) {
		anew(err.Error())
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	at, ok := p.startAt(w)
	if !ok {
		w.Leave()
		anew("its journal ends within a row")
		return nil, nil
	}
	p.from, j.tallies = at, old.Errors
	j.report.Resumed = int64(old.Mark.At)
	j.note(fmt.Sprintf("continued at %s of %s", mib(int64(old.Mark.At)), mib(j.plan.Size())))
	return w, nil
}

func (j *work) note(text string) { j.report.Notes = append(j.report.Notes, text) }

// checkpoints writes the journal of a conversion while it goes on.
type checkpoints struct {
	j    *work
	w    *vqf.Writer
	last time.Time
	busy chan error // holds one element while nothing is being written: what came of the last

	settled bool // the last journal is written
}

func (j *work) newCheckpoints(w *vqf.Writer) *checkpoints {
	c := &checkpoints{j: j, w: w, last: time.Now(), busy: make(chan error, 1)}
	c.busy <- nil
	return c
}

// look writes the journal if it is time; the work need not wait. An error is
// that of an earlier one.
func (c *checkpoints) look() error {
	if c.j.journal == nil || time.Since(c.last) < c.j.set.checkpoint {
		return nil
	}
	select {
	case err := <-c.busy:
		if err != nil {
			c.busy <- nil
			return err
		}
	default:
		return nil // the storage is slow: not twice at once
	}
	n := *c.j.journal
	n.Mark, n.Errors = c.w.Mark(), c.j.tallies.clone()
	go func() {
		err := c.w.Sync()
		if err == nil {
			err = n.write(JournalName(c.j.dst))
		}
		c.busy <- err
	}()
	c.last = time.Now()
	return nil
}

// settle writes the last journal: of all weights, but not of what a continued
// conversion makes anew.
func (c *checkpoints) settle() error {
	err := <-c.busy
	if err == nil && c.j.journal != nil {
		err = c.write()
	}
	c.settled = true
	c.busy <- nil
	return err
}

// write has the journal say how far the file is.
func (c *checkpoints) write() error {
	n := *c.j.journal
	n.Mark, n.Errors = c.w.Mark(), c.j.tallies
	if err := c.w.Sync(); err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	return n.write(JournalName(c.j.dst))
}

// end closes an unfinished file. A resumable one is kept, with a journal of how
// far it came, if what ended it may not be there the next time: the user, or the
// system. All else leaves nothing.
func (c *checkpoints) end(err error) {
	<-c.busy // so that nobody uses the writer any more
	var system syscall.Errno
	if c.j.journal == nil || !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &system) {
		c.w.Abort()
		_ = removeJournal(JournalName(c.j.dst)) // there is an error already
		return
	}
	if !c.settled {
		_ = c.write() // else the one before it stays
	}
	c.w.Leave()
}
