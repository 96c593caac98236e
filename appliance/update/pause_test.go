// SPDX-License-Identifier: Apache-2.0

package update

import (
	"testing"
	"time"
)

// TestPausesOfTries_P164 holds the pauses before a version is tried again: twice as long
// each time, up to 6 hours, half of it random.
func TestPausesOfTries_P164(t *testing.T) {
	for tries, most := range []time.Duration{0: 1, 1: 2, 2: 4, 3: 8, 4: 16, 5: 32, 6: 64, 7: 128, 8: 256, 9: 360, 10: 360, 100: 360} {
		if most *= time.Minute; most == 0 {
			continue
		}
		for range 200 {
			if d := pause(tries); d < most/2 || d >= most {
				t.Fatalf("after %d tries: %v, want %v to %v", tries, d, most/2, most)
			}
		}
	}
}
