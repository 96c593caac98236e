// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"cmp"

	"windhover/control"
	"windhover/engine"
)

// spareRequests are handed to the engine beyond what it computes at once, so that an
// urgent one, or another client's, can take its place from those in work.
const spareRequests = 2

// sequences is how many requests are computed at once.
func (e Engine) sequences() int { return cmp.Or(e.Sequences, engine.MaxSequences) }

// limits lets as many requests wait as it would without a second one at once, and a
// client have half of the places.
func (e Engine) limits() control.Limits {
	n := e.sequences()
	return control.Limits{Queue: 8 + n, PerClient: max(2, n/2)}
}
