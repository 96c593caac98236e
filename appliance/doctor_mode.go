// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
)

// What a parameter takes in memory, embedding and norms averaged in, and what is
// left for the context and all else.
const (
	bytesPerQ8 = 1.1
	bytesPerQ4 = 0.65
	besides    = 600 << 20
	autoQ8     = 1e9 // convert --mode auto: q8 up to here
)

// decides says what a token's time is made of with the kernels of this CPU, and so what
// four-bit weights gain: by docs/PERFORMANCE.md for those with dot products, of which
// one core or two read as fast as memory gives. A weight of q4 takes a sixth longer than
// one of q8 8x8 with NEON without them (Cortex-A53 in scripts/kernel-sched.txt: 132 cycles
// for 128, 228 for 256) and in plain Go (windhover bench with KERNELS_DISABLE=avx2: 0.82
// and 0.96 billion a second).
func (d *doctor) decides() (reading bool, kernels string) {
	for _, s := range d.hardware.selected {
		if s.Op == "matmul q8 8x8" {
			return s.Impl == "vnni" || s.Impl == "avx2" || s.Impl == "sdot", s.Impl
		}
	}
	return false, "generic"
}

// convertMode says in which mode and layout models are converted for this box, and how
// large they may be.
func (d *doctor) convertMode(context.Context) {
	const name = "convert mode"
	room := float64(d.room() - besides)
	q8, q4 := room/bytesPerQ8, room/bytesPerQ4
	most := fmt.Sprintf("room for about %s in q8, %s in q4", billions(q8), billions(q4))
	reading, kernels := d.decides()
	switch {
	case q4 < 0.1e9:
		d.fail(name, "free memory, or raise the limit of the control group", "%s for models is too little for any", gib(d.room()))
	case q8 < autoQ8:
		d.warn(name, fmt.Sprintf("convert models of more than %s parameters with --mode q4", billions(q8)), "%s for models: %s", gib(d.room()), most)
	case reading:
		d.ok(name, "--mode auto: q8 (8x8) up to %s parameters, q4 (4x4) above; %s. Reading decides (%s): q4 generates nearly twice as fast", billions(autoQ8), most, kernels)
	default:
		d.ok(name, "--mode q8 (8x8); %s. Calculating decides (%s): q4 needs less memory and is no faster", most, kernels)
	}
}

func billions(n float64) string { return fmt.Sprintf("%.1f B", n/1e9) }
