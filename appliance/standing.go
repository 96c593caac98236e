// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"windhover/control"
	"windhover/vqf"
)

// signatureWait is how long a file that must be signed may lie there before its
// signature does, until it is called unsigned: whoever copies both copies one first.
const signatureWait = 30 * time.Second

// findSignatures reports a signature that the policy misses before gigabytes are
// read for nothing. Whether those that are there are good is found out later.
func (d *deployer) findSignatures(c candidate) error {
	if !d.who.require {
		return nil
	}
	if in, known := d.book.knows(c, d.store); known && d.who.admit(in) == nil {
		return nil // its signature may have gone since
	}
	if _, beside := c.signature(c.Weights); !beside && !inside(c.Weights) {
		return d.who.unsigned(filepath.Base(c.Weights))
	}
	for _, path := range c.Side {
		if _, beside := c.signature(path); !beside {
			return d.who.unsignedSide(c.beside(path))
		}
	}
	return nil
}

// inside says that a file has a signature in it, or that something else is wrong. A
// signature whose flag was cleared is none.
func inside(weights string) bool {
	info, err := vqf.Inspect(weights)
	if err != nil || info.Header.Flags&vqf.FlagSigned != 0 {
		return true
	}
	var bad *vqf.FormatError
	return errors.As(info.Refused, &bad) && bad.Field != "signature"
}

// news reports whether the signatures of an installed model have to be looked at
// again: there are others that may help, or one may be by a key that is known by now.
func (d *deployer) news(in installed, c candidate) bool {
	switch {
	case in.Regime == d.who.regime():
		return false
	case in.Regime == "": // a version that did not look
		return d.who.require || inside(c.Weights) || len(c.Sigs) > 0
	}
	return in.Foreign != "" || !slices.Equal(in.Sigs, c.sigContents()) && d.who.admit(in) != nil
}

// serves looks after a model that serves: its marker, and what it may be trusted
// with when signatures, keys or the policy have changed. It returns when to look
// again, 0 for no need to.
func (d *deployer) serves(ctx context.Context, s *sighting) time.Duration {
	if s.touched {
		if wait := d.reread(ctx, s); wait > 0 {
			return wait
		}
	}
	if now := fmt.Sprint(d.who.regime(), s.sigContents()); s.review != now {
		for _, sig := range s.Sigs {
			at := sideArrived(sig.path(), d.now().Sub(s.since))
			if at.Err == nil && !at.Complete {
				return pause(d.now().Sub(s.since), at.Unsure)
			}
		}
		if !d.reconsider(ctx, s) {
			return recheck
		}
		s.review = now
	}
	if s.ready && !s.marked {
		d.reported(s)
	}
	return 0
}

// reported writes the marker of a model that serves, or that of what was refused
// beside it.
func (d *deployer) reported(s *sighting) {
	if s.failure != nil {
		d.markFailed(s)
		return
	}
	d.markReady(s)
}

// reconsider holds a model that serves against the signatures, keys and policy of
// now. A signature that came late is checked on the stored file, and the model goes
// on meanwhile; one that does not fit is refused, and the model goes on as well,
// because it was admitted without. A model that the policy no longer admits stops
// to serve. It reports false when the files change under its hands.
func (d *deployer) reconsider(ctx context.Context, s *sighting) bool {
	in := d.book.Models[s.Name]
	var refused error
	if d.late(in, s.candidate) && in.intact(d.store) {
		d.pulse.look("checking the signatures of "+s.Entry, readLimit)
		found, _, err := d.examine(ctx, s.candidate, filepath.Dir(d.store.weights(in.Key)))
		switch {
		case ctx.Err() != nil, errors.Is(err, errChanged):
			return false
		case err != nil:
			refused = err
		default:
			found.Key, found.Stored, found.Version = in.Key, in.Stored, in.Version
			if found.SHA256 == "" {
				found.SHA256 = in.SHA256
			}
			in = found
			d.book.Models[s.Name] = in
			d.save()
		}
	}
	if err := d.dismiss(s); err != nil {
		if refused == nil {
			refused = err
		}
		d.fail(ctx, s, coded(refused, control.KeyUnknown))
		return true
	}
	d.settle(s, in, refused)
	return true
}

// dismiss stops a model that serves and that the policy of now no longer admits; the
// error says why.
func (d *deployer) dismiss(s *sighting) error {
	in := d.book.Models[s.Name]
	if !d.reg.serves(s.Name) {
		return nil
	}
	err := d.who.admit(in)
	if err != nil {
		d.log.Warn("a model is no longer admitted", "model", s.Name, "version", in.Version, "error", oneLine(err))
		d.retire(d.reg.withdraw(s.Name))
		d.remember(s)
	}
	return err
}

// late reports whether there is a signature that was not looked at when the model
// was installed, or that was by a key unknown then.
func (d *deployer) late(in installed, c candidate) bool {
	return !slices.Equal(in.Sigs, c.sigContents()) && len(c.Sigs) > 0 || in.Foreign != "" && in.Regime != d.who.regime()
}

// settle shows what a model that goes on serving is trusted with, and tells of a
// signature that was refused.
func (d *deployer) settle(s *sighting, in installed, refused error) {
	by := d.who.standing(in)
	had := s.failure
	s.failure = nil
	if refused != nil {
		s.failure = coded(refused, control.SignatureInvalid)
		s.failure.Message = d.store.inDrop(s.failure.Message, s.candidate)
		s.regime = d.who.regimeOf(s.failure.Code)
	}
	before := ""
	d.reg.update(s.Name, func(m *control.Model) {
		before = m.Trust
		m.Trust, m.Error = kindOf(by), s.failure
	})
	switch {
	case refused != nil:
		delete(d.unmarked, s.Entry) // another reason, another marker
		d.markFailed(s)
		d.log.Error("a signature is refused; the model was admitted without it", "event", "model_failed", "model", s.Name, "code", s.failure.Code.Name, "error", s.failure.Message)
		d.event(control.Occurrence{Event: "model_failed", Model: s.Name, Code: s.failure.Code.Name, Message: s.failure.Message})
	case had != nil || before != kindOf(by):
		d.markReady(s)
	}
	if before != kindOf(by) {
		attrs := []slog.Attr{slog.String("model", s.Name), slog.String("trust", kindOf(by)), slog.String("before", before)}
		if by != nil {
			attrs = append(attrs, slog.String("signer", by.Name), slog.String("key_id", by.short()))
		}
		d.log.LogAttrs(context.Background(), slog.LevelInfo, "who stands for a model has changed", attrs...)
	}
}
