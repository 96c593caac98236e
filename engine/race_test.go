// SPDX-License-Identifier: Apache-2.0

//go:build race

package engine

// raceEnabled: the race detector slows plain Go sixtyfold, assembly not at all.
// Numbers are not what it looks at: the comparisons with goldens take a part of
// the cases then, and int8 only.
const raceEnabled = true
