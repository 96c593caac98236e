// SPDX-License-Identifier: Apache-2.0

// Package testclock is the clock of a machine whose time of day is put forward and back
// while the time that passes goes on. It is for tests: a time of time.Now has both
// readings, what is computed of two such times goes by the second one, and what went
// through a file, a message or UTC has the first one alone. A clock that moves both at
// once, as a fake one does, finds no such mistake. Put forward it is also what a program
// sees of a machine that was suspended: the kernel lets the second reading stand still.
package testclock

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// Clock is the time of day, put forward or back. The zero value is that of the machine.
type Clock struct{ step atomic.Int64 }

// Step puts the time of day forward, or back, by whole seconds.
func (c *Clock) Step(by time.Duration) { c.step.Add(int64(by / time.Second)) }

// Set makes the time of day about t.
func (c *Clock) Set(t time.Time) { c.Step(t.Sub(c.Now().Round(0))) }

// Now is what time.Now would return: the time of day, and the time that passes, which no
// step moves. It has to be from 1885 to 2157, as a time with both is. In a bubble of
// testing/synctest times have no second reading, and so this one has none.
func (c *Clock) Now() time.Time {
	t := time.Now()
	// The first word of a time with both readings has one bit that says so, 33 bits of
	// seconds and 30 of nanoseconds. That package has no way to move one of them alone;
	// a test here holds it to this.
	word := (*uint64)(unsafe.Pointer(&t))
	if *word>>63 == 0 {
		return t.Add(time.Duration(c.step.Load()) * time.Second)
	}
	*word += uint64(c.step.Load()) << 30
	return t
}
