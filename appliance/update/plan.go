// SPDX-License-Identifier: Apache-2.0

package update

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"windhover/appliance/disk"
	"windhover/control"
	"windhover/control/ota"
)

// Names of the files with plans, in the directory of the state; the digest between.
const (
	planBegin = "plan-"
	planEnd   = ".json"
)

// planVersion is the schema of the plans that this program writes.
const planVersion = 1

// maxPlan bounds a plan in bytes: what a document may have.
const maxPlan = 2 * ota.MaxDocument

// plan is what there is to know of a version that is to be installed, beside what the
// state machine remembers. It is on the disk before the machine is asked, so that an
// update goes on after a restart without a broker.
type plan struct {
	V       int         `json:"v"`
	Model   ota.Model   `json:"model"`
	Rollout ota.Rollout `json:"rollout"`
	Health  ota.Health  `json:"health"`
	Since   time.Time   `json:"since"`           // when it was first asked for; jitter counts from then
	Unset   bool        `json:"unset,omitempty"` // by a clock that was not known to be right

	from time.Time // Since by the time that passes in this process
}

func (u *Updater) planPath(sum ota.Digest) string {
	return filepath.Join(filepath.Dir(u.cfg.Store.Path), planBegin+sum.String()+planEnd)
}

// plan finds the plan of a digest: nil if nobody has told how to come by it.
func (u *Updater) plan(sum ota.Digest) *plan {
	u.mu.Lock()
	p := u.plans[sum]
	u.mu.Unlock()
	if p != nil {
		return p
	}
	data, err := disk.ReadFile(u.cfg.Store.Disk, u.planPath(sum), maxPlan)
	if err != nil {
		return nil // the next document brings one
	}
	p = new(plan)
	if json.Unmarshal(data, p) != nil || p.V != planVersion || p.Model.SHA256 != sum {
		return nil
	}
	p.resume(u.cfg.Judge().Device.Name, u.cfg.Clock())
	u.mu.Lock()
	defer u.mu.Unlock()
	u.plans[sum] = p
	return p
}

// prepare stores a plan. One for the same file keeps the time from which jitter counts.
func (u *Updater) prepare(p *plan) error {
	clock := u.cfg.Clock()
	p.V, p.Since, p.Unset, p.from = planVersion, clock.Now.UTC(), !clock.Sane, time.Now()
	if old := u.plan(p.Model.SHA256); old != nil {
		p.Since, p.Unset, p.from = old.Since, old.Unset, old.from
	}
	u.mu.Lock()
	u.plans[p.Model.SHA256] = p
	u.mu.Unlock()
	data, err := json.Marshal(p)
	if err == nil {
		err = disk.Replace(u.cfg.Store.Disk, u.planPath(p.Model.SHA256), data, 0o600)
	}
	switch {
	case err == nil:
		return nil
	case disk.Full(err):
		return control.Errorf(control.InsufficientStore, "the update cannot be planned, the disk is full: remove a model or give paths.state a larger disk")
	}
	return fmt.Errorf("plan of an update: %w: see what the kernel says of the storage (dmesg)", err)
}

// dropPlans forgets the plans of what is not to be kept.
func (u *Updater) dropPlans(keep map[ota.Digest]bool) error {
	u.mu.Lock()
	asked := map[ota.Digest]bool{} // stored, and the machine is told in a moment
	for sum := range u.plans {
		if u.asking[sum] > 0 {
			asked[sum] = true
		} else if !keep[sum] {
			delete(u.plans, sum)
		}
	}
	u.mu.Unlock()
	dir := filepath.Dir(u.cfg.Store.Path)
	names, err := u.cfg.Store.Disk.List(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range names {
		text, ok := strings.CutPrefix(n, planBegin)
		text, ok2 := strings.CutSuffix(text, planEnd)
		var sum ota.Digest
		if ok && ok2 && sum.UnmarshalText([]byte(text)) == nil && !keep[sum] && !asked[sum] {
			errs = append(errs, u.cfg.Store.Disk.Remove(filepath.Join(dir, n)))
		}
	}
	return errors.Join(errs...)
}

// resume counts what passed of the jitter before this start. Where one of the clocks that
// say so was not right it may be anything, and if it makes no sense the share is waited
// for anew: a fleet whose clocks are all set a moment after the power is back must not
// begin at once.
func (p *plan) resume(device string, c ota.Clock) {
	passed := c.Now.Sub(p.Since)
	if passed < 0 || passed > p.Rollout.Delay(device) && (p.Unset || !c.Sane) {
		passed = 0
	}
	p.from = time.Now().Add(-min(passed, p.Rollout.Jitter()))
}

// wait is how much is left of this device's share of the jitter. A clock that is set
// meanwhile changes nothing about it.
func (p *plan) wait(device string) time.Duration {
	return p.Rollout.Delay(device) - time.Since(p.from)
}
