// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"windhover/control"
	"windhover/engine"
)

// open loads an installed version and guards its file against writers.
func (d *deployer) open(ctx context.Context, name string, in installed) (*serving, error) {
	path := d.store.weights(in.Key)
	g, err := d.guardOrCopy(ctx, path)
	if err != nil {
		return nil, err
	}
	if fi, err := os.Stat(path); err != nil || g != nil && identify(fi).content() != in.Stored {
		g.release()
		return nil, errors.Join(errChanged, err) // between verification and guard
	}
	d.pulse.look("loading "+name, loadLimit)
	began := time.Now()
	m, err := d.load(ctx, path, in)
	in.crowded = false
	if err != nil {
		g.release()
		return nil, err
	}
	d.loaded(name, time.Since(began))
	return newServing(name, m, g, in), nil
}

// guardOrCopy guards a stored file that other names lead to as well. Where the
// file system has no leases it becomes a copy of its own.
func (d *deployer) guardOrCopy(ctx context.Context, path string) (*guard, error) {
	g, err := d.leases.guardShared(path)
	if err == nil || errors.Is(err, errChanged) || errors.Is(err, os.ErrNotExist) {
		return g, err
	}
	return nil, privateCopy(ctx, path)
}

// privateCopy puts a copy in the place of a file that has other names.
func privateCopy(ctx context.Context, path string) error {
	f, fi, err := openPlain(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	if err := remove(path + ".own"); err != nil {
		return err
	}
	if err := copyOpen(ctx, f, path+".own", fi.Size(), reserve); err != nil {
		return errors.Join(err, remove(path+".own"))
	}
	return os.Rename(path+".own", path)
}

// openBeside loads a version beside the one that serves under the same name. Where
// memory does not hold both, the old one is drained and unloaded first while its
// requests wait; if the new one then fails, the old one comes back.
func (d *deployer) openBeside(ctx context.Context, name string, in installed) (*serving, error) {
	// A version that gets in only layer by layer would stay so when the old one
	// is gone, and be slow for good.
	tight := in
	tight.crowded = d.reg.serves(name)
	v, err := d.open(ctx, name, tight)
	if !errors.Is(err, engine.ErrMemory) {
		return v, err
	}
	old := d.reg.suspend(name)
	if old == nil {
		return nil, err
	}
	d.log.Info("memory does not hold two versions: unloading the old one first", "model", name, "version", old.Version)
	select {
	case <-old.idle:
	case <-time.After(drainLimit):
	}
	if err := old.Close(); err != nil {
		d.log.Error("a model is not closed", "model", name, "error", err)
	}
	if v, err = d.open(ctx, name, in); err == nil {
		return v, nil
	}
	back, rerr := d.open(ctx, name, old.installed)
	if rerr == nil && !back.guard.onBreak(func() { d.unshare(back) }) {
		rerr = errors.Join(errChanged, back.Close())
	}
	switch {
	case rerr == nil:
		d.reg.resume(name, back)
		return nil, err
	case ctx.Err() == nil: // else it is the stop that it did not come back from
		d.log.Error("the version that served cannot be loaded again", "model", name, "error", rerr)
	}
	d.reg.resume(name, nil)
	return nil, errors.Join(err, rerr)
}

// revive serves the last good version of a model where nothing serves: after a
// restart with an update in the drop directory that is bad or still arriving.
func (d *deployer) revive(ctx context.Context, name string) {
	in, ok := d.book.Models[name]
	if !ok || d.revived[name] || d.reg.serves(name) || d.who.admit(in) != nil {
		return
	}
	d.revived[name] = true
	err := d.readmit(ctx, name, in)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		d.log.Error("the version that served before cannot be used", "model", name, "version", in.Version, "error", err)
		return
	}
	d.log.Info("the version that served before goes on", "model", name, "version", in.Version)
}

// readmit takes an installed version that may have been written over since.
func (d *deployer) readmit(ctx context.Context, name string, in installed) error {
	if d.check == "always" || !in.intact(d.store) {
		d.pulse.look("verifying the version of "+name+" in the store", readLimit)
		sum, err := digestOf(ctx, d.store.weights(in.Key))
		if err != nil {
			return err
		}
		if in.SHA256 == "" || sum != in.SHA256 {
			return fmt.Errorf("its file in the store was changed")
		}
		fi, err := os.Stat(d.store.weights(in.Key))
		if err != nil {
			return err
		}
		in.Stored = identify(fi).content()
		d.book.Models[name] = in
	}
	v, err := d.open(ctx, name, in)
	if err != nil {
		return err
	}
	var failure *control.Error
	if s := d.seen[name]; s != nil {
		failure = s.failure
	}
	return d.activate(ctx, v, failure)
}
