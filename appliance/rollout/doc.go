// SPDX-License-Identifier: Apache-2.0

// Package rollout decides what happens to a model that a document asks for: download,
// verify, stage, load, probe, activate on trial, observe, commit; and what happens when
// any of that fails, the disk is full, or the power goes.
//
// The decisions are a pure function, [State.Step], from a state and an event to the
// next state and actions. What has to outlast a restart is the state, one file, so that
// a version, the floor below which the device does not go again, and the documents it
// has seen change together or not at all. [Machine] runs the actions; what they are to
// the appliance is behind [Box].
//
//	state.go            what is remembered
//	event.go step.go    the decisions; boot.go those of a start
//	store.go            the file
//	machine.go          who carries them out
//	health.go           whether a version on trial holds
package rollout
