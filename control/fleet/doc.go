// SPDX-License-Identifier: Apache-2.0

// Package fleet brings a document to the devices of a group in stages, and takes it
// back when too many of them fail. It is the publisher's side of control/ota, and needs
// a broker alone: documents are retained there, and devices answer there.
//
// The decisions are a pure function, [State.Step], from a state and what the devices
// report to the next state. The document that a state stands for follows from it, byte
// for byte, so that a roll-out that was cut off goes on from its stored state and may
// publish once more what it had published.
//
//	state.go       what is remembered, and the document of it
//	begin.go       the first state
//	roster.go      what is heard of devices
//	count.go       what a stage has come to
//	step.go        the decisions
//	controller.go  who carries them out
package fleet
