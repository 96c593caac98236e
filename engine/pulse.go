// SPDX-License-Identifier: Apache-2.0

package engine

// stepShift leaves room below the steps for the units of one.
const stepShift = 20

// Steps is a number that grows whenever something of a request moves on: with the
// parallel steps that the model's workers begin, of which there are many in each
// layer, with the units of each, and with the bytes of weights that have come where
// weights are read by calls. So what waits for slow storage moves as long as that
// gives anything. It may be read at any time.
func (m *Model) Steps() uint64 {
	return m.pool.Runs()<<stepShift + m.st.units.begun() + uint64(m.w.res.read())
}

// Pace lets at most n of the model's workers work, from the next step of a pass on;
// 0 means all. Tokens do not change. It may be called at any time.
func (m *Model) Pace(n int) { m.pool.Pace(n) }
