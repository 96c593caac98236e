// SPDX-License-Identifier: Apache-2.0

// Package testdisk is a disk in memory that forgets what was not synced when its
// power is cut, and faults for that one or a real one. It is for tests: a program
// that writes is run once to count its changes of the disk, and then once with a
// fault at each of them, and has to find its way back every time.
package testdisk
