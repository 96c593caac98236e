// SPDX-License-Identifier: Apache-2.0

package testclock

import (
	"testing"
	"time"
)

// A step is seen in the time of day, and in nothing that is measured.
func TestStep(t *testing.T) {
	var c Clock
	for _, by := range []time.Duration{0, 20 * 365 * 24 * time.Hour, -56 * 365 * 24 * time.Hour, time.Hour, -time.Hour} {
		before := c.Now()
		c.Step(by)
		after := c.Now()
		if passed := after.Sub(before); passed < 0 || passed > time.Minute {
			t.Errorf("a step of %v is measured as %v", by, passed)
		}
		if moved := after.Round(0).Sub(before.Round(0)) - by; moved < 0 || moved > time.Minute {
			t.Errorf("a step of %v moves the time of day by %v", by, moved+by)
		}
	}
	at := time.Date(1970, 1, 1, 0, 0, 9, 0, time.UTC)
	c.Set(at)
	if got := c.Now().UTC(); got.Year() != 1970 || got.Sub(at).Abs() > time.Minute {
		t.Errorf("set to %v it is %v", at, got)
	}
}
