// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"sync"

	"windhover/appliance/rollout"
	"windhover/control"
)

// tallies count how requests end on the versions that serve, each since it does: by
// that a version on trial is judged.
type tallies struct {
	mu sync.Mutex        // guards what follows
	by map[string]*tally // by model
}

// tally is that of one version.
type tally struct {
	version, digest string
	rollout.Sample
	trial bool
}

func newTallies() *tallies { return &tallies{by: map[string]*tally{}} }

// begin starts with a version that is about to serve.
func (t *tallies) begin(s *serving, trial bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.by[s.Name] = &tally{version: s.Version, digest: s.Digest, trial: trial}
}

// settle says that the version of a model is on trial no longer.
func (t *tallies) settle(model string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if is := t.by[model]; is != nil {
		is.trial = false
	}
}

// observe counts the end of a request on the version that it ran on. It says whether a
// version on trial is worth a look before the time that it has is over.
func (t *tallies) observe(o control.Observation) (look bool) {
	failed := false
	switch o.Code {
	case "ok":
	case control.Internal.Name, control.ModelIOError.Name, control.HealthCheckFailed.Name, control.LoadFailed.Name:
		failed = true
	default:
		return false // the caller's, or the moment's
	}
	if o.Op == control.OpTokenize {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	is := t.by[o.Model.Name]
	if is == nil || o.Model.SHA256 != is.digest || o.Model.Version != is.version {
		return false
	}
	is.Requests++
	if failed {
		is.Errors++
	}
	return failed && is.trial
}

// sample is what was counted of a model.
func (t *tallies) sample(model string) rollout.Sample {
	t.mu.Lock()
	defer t.mu.Unlock()
	if is := t.by[model]; is != nil {
		return is.Sample
	}
	return rollout.Sample{}
}
