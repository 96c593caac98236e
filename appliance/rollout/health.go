// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"windhover/control"
	"windhover/control/ota"
)

// minErrors is how many requests have to fail before their share says anything.
const minErrors = 3

// Sample is what was seen of a version on trial.
type Sample struct {
	Requests, Errors int64
	TPS              float64 // tokens a second; 0: nothing was generated
}

// Healthy says whether a version may stay, by the tokens a second of the version before
// (0: not known). The error is control.HealthCheckFailed.
func Healthy(h ota.Health, before float64, s Sample) error {
	if s.Errors >= minErrors && float64(s.Errors) > h.MaxErrorRatio*float64(s.Requests) {
		return control.Errorf(control.HealthCheckFailed, "%d of %d requests failed, %.0f %% may", s.Errors, s.Requests, 100*h.MaxErrorRatio)
	}
	if s.TPS > 0 && s.TPS < h.MinTPSRatio*before {
		return control.Errorf(control.HealthCheckFailed, "%.1f tokens a second, the version before had %.1f and %.0f %% of that are needed", s.TPS, before, 100*h.MinTPSRatio)
	}
	return nil
}
