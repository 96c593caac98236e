// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"windhover/appliance/rollout"
	"windhover/appliance/update"
	"windhover/control"
	"windhover/control/ota"
	"windhover/engine"
	"windhover/vqf"
)

// updateDevice is the deployer as updates see it. The models of updates lie in the
// store beside the dropped ones, and are written down in the same book; each step holds
// the deployer's lock, so that no look at the drop directory is under way.
type updateDevice struct {
	d      *deployer
	heat   *heat                    // nil: nobody watches
	loaded map[string]*trialVersion // by model: not serving yet; guarded by the deployer's lock
}

// trialVersion is a version that is loaded and does not serve yet.
type trialVersion struct {
	*serving
	speed control.TokenSpeed
}

var _ update.Device = (*updateDevice)(nil)

func newUpdateDevice(d *deployer) *updateDevice {
	return &updateDevice{d: d, loaded: map[string]*trialVersion{}}
}

// storeKeyOf is the entry of a digest in the store.
func storeKeyOf(sum ota.Digest) string { return "sha256-" + sum.String() }

// Path is where a version lies in the store.
func (u *updateDevice) Path(sum ota.Digest) string { return u.d.store.weights(storeKeyOf(sum)) }

// Claim refuses the name of a model in the drop directory: who put it there would
// wonder where it is.
func (u *updateDevice) Claim(model string) error {
	d := u.d
	if !validModelName(model) {
		return control.Errorf(control.BadRequest, "%q is no name of a model", model)
	}
	d.work.Lock()
	defer d.work.Unlock()
	_, seen := d.seen[model]
	in, known := d.book.Models[model]
	if !d.managed(model) && (seen || known) {
		return control.Errorf(control.Incompatible, "the model name %s is taken by %s in the drop directory: remove that, or publish under another name", model, in.Entry)
	}
	return nil
}

// Has says whether a version is in the store. A file that nobody vouches for, because a
// cut came before that was written down, is read.
func (u *updateDevice) Has(sum ota.Digest) bool {
	d := u.d
	d.work.Lock()
	defer d.work.Unlock()
	fi, err := os.Stat(u.Path(sum))
	if err != nil {
		return false
	}
	if d.book.verified(storeKeyOf(sum), identify(fi).content()) {
		return true
	}
	d.pulse.look("reading "+storeKeyOf(sum)+" in the store", readLimit)
	defer d.pulse.look("", 0)
	got, err := digestOf(withBeat(context.Background(), d.pulse), u.Path(sum))
	return err == nil && got == sum.String()
}

// Verify reads a downloaded file once more for its structure, with the passphrase of
// this box.
func (u *updateDevice) Verify(ctx context.Context, model string, v rollout.Version, path string) error {
	key, err := u.d.who.pass.keyOf(path)
	if err != nil {
		return coded(err, control.FormatInvalid)
	}
	rep, err := digest(ctx, path, vqf.VerifyOptions{Key: key, Trust: u.d.who.trust()})
	if err != nil {
		return coded(err, control.FormatInvalid)
	}
	if rep.SHA256 != v.SHA256.String() {
		return control.Errorf(control.DigestMismatch, "model %s: the file has another SHA-256 than was signed", model)
	}
	return nil
}

// Stage gives a file its place in the store and writes that down.
func (u *updateDevice) Stage(_ context.Context, _ string, v rollout.Version, move func(to string) error) error {
	d := u.d
	d.work.Lock()
	defer d.work.Unlock()
	key := storeKeyOf(v.SHA256)
	path := d.store.weights(key)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	if err := syncDir(d.store.dir); err != nil {
		return err
	}
	if err := move(path); err != nil {
		return err
	}
	_, err := u.record(v)
	return err
}

// record finds or makes the entry of a version in the book. The deployer's lock is held.
func (u *updateDevice) record(v rollout.Version) (installed, error) {
	d, sum := u.d, v.SHA256.String()
	in, known := d.book.Updates[sum]
	if known && in.intact(d.store) {
		return in, nil
	}
	path := u.Path(v.SHA256)
	fi, err := os.Stat(path)
	if err != nil {
		return installed{}, err
	}
	if id := identify(fi).content(); !d.book.verified(storeKeyOf(v.SHA256), id) {
		d.pulse.look("verifying "+storeKeyOf(v.SHA256)+" in the store", readLimit)
		defer d.pulse.look("", 0)
		got, err := digestOf(withBeat(context.Background(), d.pulse), path)
		if err != nil {
			return installed{}, err
		}
		if got != sum {
			return installed{}, control.Errorf(control.DigestMismatch, "the file of version %s in the store was changed", v.Version)
		}
	}
	key, err := d.who.pass.keyOf(path)
	if err != nil {
		return installed{}, err
	}
	in = installed{Key: storeKeyOf(v.SHA256), Stored: identify(fi).content(), SHA256: sum, Version: v.Version, Sealed: keyCheck(key), Fleet: true}
	d.book.Updates[sum] = in
	d.save()
	return in, nil
}

// Load loads a version beside the one that serves, or in its place where memory does
// not hold both.
func (u *updateDevice) Load(ctx context.Context, model string, v rollout.Version) error {
	d := u.d
	d.work.Lock()
	defer d.work.Unlock()
	defer d.pulse.look("", 0)
	u.free(model)
	in, err := u.record(v)
	if err != nil {
		return coded(err, control.LoadFailed)
	}
	d.state(model, stateLoading)
	s, err := d.openBeside(ctx, model, in)
	if err != nil {
		return coded(err, control.LoadFailed)
	}
	u.loaded[model] = &trialVersion{serving: s}
	return nil
}

// golden holds what a model says against what it has to. The same file says the same on
// every machine, so that another answer is another model, or a machine that calculates
// wrong.
func golden(ctx context.Context, s servable, h ota.Health) error {
	g := h.Golden
	if g == nil {
		return nil
	}
	res, err := s.Generate(ctx, engine.Request{Tokens: s.Tokenizer().Encode(g.Prompt, false), MaxTokens: g.Tokens, Raw: true}, func(engine.Event) error { return nil })
	if err != nil {
		return err
	}
	if res.Text != g.Answer {
		return control.Errorf(control.HealthCheckFailed, "probe %s: the model answers %.80q, and %.80q is signed", h.Probe, res.Text, g.Answer)
	}
	return nil
}

// Switch lets the loaded version serve; the one before drains.
func (u *updateDevice) Switch(_ context.Context, model string, v rollout.Version) error {
	u.d.work.Lock()
	defer u.d.work.Unlock()
	return u.swap(model, v)
}

func (u *updateDevice) swap(model string, v rollout.Version) error {
	d := u.d
	t := u.loaded[model]
	if t == nil || t.Digest != v.SHA256.String() {
		return control.Errorf(control.LoadFailed, "version %s is not loaded", v.Version)
	}
	delete(u.loaded, model)
	if !t.guard.onBreak(func() { d.unshare(t.serving) }) || !t.guard.intact() {
		return errors.Join(errChanged, t.Close())
	}
	d.tally.begin(t.serving, false)
	doc := document(t.serving, t.speed)
	doc.Trust = trustFleet
	d.retire(d.reg.activate(model, t.serving, doc))
	d.save() // the order of defaults
	return nil
}

// Restore lets an installed version serve.
func (u *updateDevice) Restore(ctx context.Context, model string, v rollout.Version) error {
	d := u.d
	d.work.Lock()
	defer d.work.Unlock()
	defer d.pulse.look("", 0)
	if d.reg.refOf(model).SHA256 == v.SHA256.String() {
		u.free(model)
		d.reg.update(model, func(m *control.Model) { m.State, m.Error = stateReady, nil })
		return nil
	}
	err := u.restore(ctx, model, v)
	if err != nil {
		if d.reg.refOf(model).SHA256 == "" {
			d.reg.resume(model, nil) // whoever waits is told
			d.reg.update(model, func(m *control.Model) { m.State, m.Error = stateFailed, coded(err, control.LoadFailed) })
		}
		return coded(err, control.LoadFailed)
	}
	return nil
}

func (u *updateDevice) restore(ctx context.Context, model string, v rollout.Version) error {
	d := u.d
	if t := u.loaded[model]; t == nil || t.Digest != v.SHA256.String() {
		u.free(model)
		in, err := u.record(v)
		if err != nil {
			return err
		}
		d.state(model, stateLoading)
		s, err := d.openBeside(ctx, model, in)
		if err != nil {
			return err
		}
		u.loaded[model] = &trialVersion{serving: s}
	}
	t := u.loaded[model]
	d.pulse.look("trying "+model, readLimit)
	var err error
	if t.speed, err = d.probe(ctx, t.servable); err != nil {
		u.free(model)
		return err
	}
	return u.swap(model, v)
}

// free closes what is loaded and does not serve.
func (u *updateDevice) free(model string) {
	t := u.loaded[model]
	if t == nil {
		return
	}
	delete(u.loaded, model)
	if err := t.Close(); err != nil {
		u.d.log.Error("a model is not closed", "model", model, "error", err)
	}
}

// Withdraw lets nothing serve under a name.
func (u *updateDevice) Withdraw(_ context.Context, model string) error {
	d := u.d
	d.work.Lock()
	defer d.work.Unlock()
	u.free(model)
	d.retire(d.reg.withdraw(model))
	d.save()
	return nil
}

// Default makes a model the default one, over restarts too.
func (u *updateDevice) Default(model string) error {
	d := u.d
	d.work.Lock()
	defer d.work.Unlock()
	if err := d.reg.makeDefault(model); err != nil {
		return err
	}
	d.save()
	return nil
}

// errAtWork makes the machine come back to it.
var errAtWork = errors.New("updates: a look at the drop directory is under way")

// Collect removes the versions that are not to be kept.
func (u *updateDevice) Collect(keep map[ota.Digest]bool) error {
	d := u.d
	if !d.work.TryLock() {
		return errAtWork
	}
	defer d.work.Unlock()
	u.keep(keep)
	for sum := range d.book.Updates {
		var digest ota.Digest
		if digest.UnmarshalText([]byte(sum)) != nil || !keep[digest] {
			delete(d.book.Updates, sum)
		}
	}
	d.save()
	return nil
}

// keep notes what must stay in the store. The deployer's lock is held, or nobody else
// works yet.
func (u *updateDevice) keep(sums map[ota.Digest]bool) {
	u.d.kept = map[string]bool{}
	for sum := range sums {
		u.d.kept[storeKeyOf(sum)] = true
	}
}

// close frees what is loaded and does not serve. Nothing asks any more.
func (u *updateDevice) close() {
	for model := range u.loaded {
		u.free(model)
	}
}

// Sample is what was counted.
func (u *updateDevice) Sample(model string) rollout.Sample { return u.d.tally.sample(model) }
