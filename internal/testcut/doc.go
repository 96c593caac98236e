// SPDX-License-Identifier: Apache-2.0

// Package testcut runs a program and, at one of the changes that it makes below a
// directory, kills it or tells it that the disk is full. The program has nothing in it
// for that: its changes are system calls, and whoever traces it sees each before it is
// made. It is for tests: a daemon is run once to count its changes, and then once with a
// cut at each of them, and has to find its way back every time.
//
// The time of day can come from a test as well, which puts it forward and back while the
// program runs.
//
// It knows the registers of amd64 alone.
package testcut

import "windhover/internal/testclock"

// Kind is what happens at a change.
type Kind int

// The kinds of a cut. Torn counts writes alone.
const (
	Before Kind = iota // killed, and the change is not made
	Torn               // killed when half of a write is made
	After              // killed when it is made
	Full               // half of it is made, and from then on nothing that needs room
	Stop               // asked to stop, by SIGTERM, before it is made
)

func (k Kind) String() string { return [...]string{"before", "torn", "after", "full", "stop"}[k] }

// Kills says whether the program does not live to see more.
func (k Kind) Kills() bool { return k <= After }

// Cut is where and how a program is ended or hindered.
type Cut struct {
	Dir  string // changes below it count
	At   int    // the change, from 1 on; 0: none, changes are counted alone
	Kind Kind
	Only func(change string) bool // asked before each, such as "rename /dir/file", whether it counts; nil: all do

	Clock *testclock.Clock // tells the time of day to a program of WithoutVDSO; nil: the kernel does
}
