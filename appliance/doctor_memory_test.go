// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"testing"

	"windhover/engine"
)

// What doctor says of a model names how it would be held, and why.
func TestResidencyNote(t *testing.T) {
	for _, tt := range []struct {
		need engine.Need
		want string
	}{
		{engine.Need{Residency: engine.ResidencyFull, Kept: 28}, ""},
		{engine.Need{Residency: engine.ResidencyLayered, Kept: 3, Full: 5000},
			", layered with 3 layers kept: 5000 bytes with all weights in memory are more than there is room for"},
		{engine.Need{Residency: engine.ResidencyLayered, Kept: 1, Full: 5000},
			", layered with 1 layer kept: 5000 bytes with all weights in memory are more than there is room for"},
		{engine.Need{Residency: engine.ResidencyExperts, Kept: 48, Experts: 88}, ", experts with room for 88 experts: asked for"},
	} {
		if got := residencyNote(tt.need); got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.need, got, tt.want)
		}
	}
}
