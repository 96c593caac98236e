// SPDX-License-Identifier: Apache-2.0

package engine

// Steps counts the parallel steps the model's workers have begun; there are many
// in each layer. That it grows while a request is in work proves that the
// request moves. It may be read at any time.
func (m *Model) Steps() uint64 { return m.pool.Runs() }

// Pace lets at most n of the model's workers work, from the next step of a pass on;
// 0 means all. Tokens do not change. It may be called at any time.
func (m *Model) Pace(n int) { m.pool.Pace(n) }
