// SPDX-License-Identifier: Apache-2.0

// Package update makes an appliance run what a fleet wants of it: it judges documents
// and commands (control/ota), downloads (appliance/fetch), and lets the state machine of
// an update (appliance/rollout) decide. It knows no engine: what a model is to the
// appliance is behind [Device], so that a simulated one costs a few kilobytes.
//
// Start with [Open].
//
//	device.go   what an appliance has to be able to do
//	update.go   what holds the parts together
//	desired.go  documents: judged, kept, asked for, and asked for again
//	plan.go     where a version is to be had, over restarts
//	box.go      the steps of an update
//	job.go      commands
//	report.go   what the fleet and the commands are told
//	clock.go    whether the time can be believed
//	chrony.go   and what chronyd says of that
//	zone.go     the time zone of this machine
package update
