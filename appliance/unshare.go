// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"windhover/control"
)

const (
	// breakTime is how long a writer may be held back; the kernel's own limit is
	// 45 s.
	breakTime = 40 * time.Second
	// spare is what saving a running model leaves of the disk.
	spare = 8 << 20
)

// notes is what other goroutines have to tell the one that scans.
type notes struct {
	mu     sync.Mutex        // guards what follows
	stored map[string]fileID // by key: the entry is this file now
	lost   []string          // models to be looked at afresh
	spoilt []string          // models whose dropped file was written to
}

// settleNotes takes over what unshare did.
func (d *deployer) settleNotes() {
	d.notes.mu.Lock()
	stored, lost, spoilt := d.notes.stored, d.notes.lost, d.notes.spoilt
	d.notes.stored, d.notes.lost, d.notes.spoilt = nil, nil, nil
	d.notes.mu.Unlock()
	for name, in := range d.book.Models {
		if id, ok := stored[in.Key]; ok {
			in.Stored = id
			d.book.Models[name] = in
		}
	}
	for sum, in := range d.book.Updates {
		if id, ok := stored[in.Key]; ok {
			in.Stored = id
			d.book.Updates[sum] = in
		}
	}
	for _, name := range slices.Concat(lost, spoilt) {
		delete(d.seen, name)
	}
	for _, name := range spoilt {
		// Size and time may be what they were: cp -p keeps them.
		if in, ok := d.book.Models[name]; ok {
			in.Source = fileID{}
			d.book.Models[name] = in
		}
	}
	if len(stored)+len(spoilt) > 0 {
		d.save()
	}
}

// unshare is called when somebody is about to write to the file of a version that
// serves. The model moves to a copy of its own; where that cannot be, it stops to
// serve before the writer may go on, because its answers would be noise.
func (d *deployer) unshare(v *serving) {
	ctx, cancel := context.WithTimeout(context.Background(), breakTime)
	defer cancel()
	d.log.Info("the dropped file is being written over: moving the model to a copy", "model", v.Name, "version", v.Version)
	err := d.moveToCopy(ctx, v)
	if err == nil {
		d.notes.mu.Lock()
		d.notes.spoilt = append(d.notes.spoilt, v.Name)
		d.notes.mu.Unlock()
		d.wake()
		return
	}
	if errors.Is(err, os.ErrClosed) {
		return // a stop, or a successor, was faster: nobody calculates with it any more
	}
	d.log.Error("the weights of a model are being written over and cannot be saved", "model", v.Name, "error", err)
	failure := coded(err, control.ModelIOError)
	failure.Message = fmt.Sprintf("its file was written over in place and could not be saved (%s): copy to another name, then rename", failure.Message)
	d.reg.lose(v.Name, v, failure)
	select {
	case <-v.idle:
	case <-ctx.Done():
	}
	if err := v.servable.Close(); err != nil {
		d.log.Error("a model is not closed", "model", v.Name, "error", err)
	}
	go v.guard.release() // it waits for this function
	d.notes.mu.Lock()
	d.notes.lost = append(d.notes.lost, v.Name)
	d.notes.mu.Unlock()
	d.wake()
}

// moveToCopy copies the file that is guarded, moves the running model onto the
// copy and puts that in the store.
func (d *deployer) moveToCopy(ctx context.Context, v *serving) error {
	dir, err := os.MkdirTemp(d.store.dir, adopting+"*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // the next start does it as well
	tmp := filepath.Join(dir, "model.vqf")
	fi, err := v.guard.f.Stat()
	if err != nil {
		return err
	}
	before := identify(fi)
	if cloned, err := clone(v.guard.f, tmp); err != nil {
		return err
	} else if !cloned {
		if err := copyOpen(ctx, v.guard.f, tmp, before.Size, spare); err != nil {
			return err
		}
	}
	if err := unwritten(v.guard.f, before); err != nil {
		return err // the kernel waited no longer
	}
	own, fi, err := openPlain(tmp)
	if err != nil {
		return err
	}
	defer func() { _ = own.Close() }() // read only; the mapping keeps it
	if err := v.Rebase(own); err != nil {
		return err
	}
	// The model is safe. The store follows, unless the entry has gone meanwhile.
	if err := os.Rename(tmp, d.store.weights(v.Key)); err != nil {
		d.log.Warn("the copy of a model does not take its place in the store", "model", v.Name, "error", err)
		return nil
	}
	d.notes.mu.Lock()
	defer d.notes.mu.Unlock()
	if d.notes.stored == nil {
		d.notes.stored = map[string]fileID{}
	}
	d.notes.stored[v.Key] = identify(fi).content()
	return syncDir(filepath.Dir(d.store.weights(v.Key)))
}
