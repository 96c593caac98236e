// SPDX-License-Identifier: Apache-2.0

package kernels

import "fmt"

// SiluMul computes dst[i] = float32(g / (1 + Exp(-g))) * up[i] with
// g = gate[i]. dst may be gate or up.
func SiluMul(dst, gate, up []float32) {
	if len(dst) != len(gate) || len(up) != len(gate) {
		panic(fmt.Sprintf("kernels: SiluMul: lengths %d, %d and %d", len(dst), len(gate), len(up)))
	}
	siluMul(dst, gate, up)
}
