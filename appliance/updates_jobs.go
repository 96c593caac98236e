// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"windhover/appliance/rollout"
	"windhover/appliance/update"
	"windhover/control"
)

// Beside says that commands about models run beside the job that works: they wait for
// servers, times of day and requests, and the state machine of updates sees to it that
// one step is done at a time.
func (b *backend) Beside(typ string) bool { return slices.Contains(update.JobTypes, typ) }

// Resumes says that an installation goes on after a restart.
func (b *backend) Resumes(typ string) bool { return typ == "model_install" }

// duty is a command that the server carries out itself.
type duty func(ctx context.Context) (any, error)

// duties are those.
func (s *server) duties() map[string]duty {
	return map[string]duty{"gc": s.gc, "diag": s.diag, "config_reload": s.reloadJob}
}

// updateJob carries out a command about models.
func (b *backend) updateJob(ctx context.Context, j control.Job, report func(control.JobProgress)) (any, error) {
	if j.Type == "model_remove" {
		var p struct{ Model string }
		if json.Unmarshal(j.Params, &p) == nil && !b.updates.Manages(p.Model) && b.updates.install.dropped(p.Model) != "" {
			return b.updates.install.removeDropped(p.Model)
		}
	}
	return b.updates.RunJob(ctx, j, report)
}

// dropped is the entry in the drop directory that a model comes from.
func (u *updateDevice) dropped(model string) string {
	d := u.d
	d.work.Lock()
	defer d.work.Unlock()
	return d.incumbent(model)
}

// removeDropped takes a model out of the drop directory, as if somebody had removed
// its file.
func (u *updateDevice) removeDropped(model string) (any, error) {
	d := u.d
	d.work.Lock()
	defer d.work.Unlock()
	entry := d.incumbent(model)
	if entry == "" || filepath.Base(entry) != entry {
		return nil, control.Errorf(control.UnknownModel, "no model %q is installed", model)
	}
	if err := os.RemoveAll(filepath.Join(d.drop, entry)); err != nil {
		return nil, err
	}
	if err := syncDir(d.drop); err != nil {
		return nil, err
	}
	d.wake()
	return update.Result{Model: model}, nil
}

// gc frees what nothing needs: versions in the store, what jobs left.
func (s *server) gc(context.Context) (any, error) {
	d := s.deployer
	d.work.Lock()
	defer d.work.Unlock()
	before, _ := freeSpace(s.cfg.Paths.State)
	if !d.book.unsaved.IsZero() {
		d.save()
	}
	d.collect()
	// Jobs that work run one at a time, and this is one of them.
	if err := tidyIncoming(s.cfg.Paths); err != nil {
		return nil, err
	}
	after, _ := freeSpace(s.cfg.Paths.State)
	return struct {
		Freed int64 `json:"freed_bytes"`
		Free  int64 `json:"free_bytes"`
	}{max(after-before, 0), after}, nil
}

// diagnosis is what there is to know of a box from far away. No prompt is in it.
type diagnosis struct {
	Status   StatusDoc         `json:"status"`
	Counters control.Counters  `json:"counters"`
	Updates  *rollout.State    `json:"updates,omitempty"`
	Trusted  []string          `json:"trust_keys"`
	Free     int64             `json:"free_bytes"`
	Clock    string            `json:"clock"` // whether the kernel says that it is in step
	At       map[string]string `json:"at,omitempty"`
}

// diag gathers it.
func (s *server) diag(context.Context) (any, error) {
	free, _ := freeSpace(s.cfg.Paths.State)
	d := diagnosis{Status: s.status(), Counters: s.control.Counters(), Trusted: s.backend.Info().TrustKeys, Free: free, Clock: "not set"}
	if update.SystemClock().Sane {
		d.Clock = "in step"
	}
	if s.updates != nil {
		state := s.updates.State()
		d.Updates = &state
	}
	if what := s.backend.pulse.doing(); what != "" {
		d.At = map[string]string{"drop": what}
	}
	return d, nil
}

// gone says why a command about models is refused.
func (b *backend) gone(typ string) error {
	return control.Errorf(control.Unsupported, "job type %q: the state of updates cannot be read: see the log", typ)
}
