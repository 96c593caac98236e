// SPDX-License-Identifier: Apache-2.0

// Package machine reads what the kernel tells of the computer below: temperatures and
// the points at which it acts on them, what slows the CPU, clocks and who chooses them;
// and decides how many cores may compute on a machine that grows too hot.
//
// Everything is read from a file system that begins at "/", so that tests bring boards
// of their own. What a machine does not tell is left out, which is not an error: a
// virtual machine tells nothing at all.
package machine
