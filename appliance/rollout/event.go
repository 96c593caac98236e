// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"windhover/control"
	"windhover/control/ota"
)

// Event is something that happened.
type Event interface{ event() }

// Boot is the start of the device, always the first event.
type Boot struct{}

// Want asks for a version of a model; a document was accepted, or a command. Memory is
// what is to be remembered of documents from now on, nil for no change.
type Want struct {
	Model  string
	Update Update
	Memory *ota.Memory
}

// Seen is a document that asks for nothing that is not there.
type Seen struct{ Memory ota.Memory }

// Done says that a step was carried out.
type Done struct {
	Model  string
	Phase  Phase
	SHA256 ota.Digest
}

// Failed says that a step was not.
type Failed struct {
	Done
	Err *control.Error
}

// Cancel gives up the update of a model.
type Cancel struct{ Model string }

// Rollback takes a model back to an older version that is still installed, which
// somebody asked for; To names it, "" is the one before.
type Rollback struct{ Model, Job, To string }

// Forgive lets a refused version be tried again.
type Forgive struct {
	Model  string
	SHA256 ota.Digest
}

// Remove takes a model off the device. Wanted is what the document of a revision, Rev,
// wants in its place, nil for nothing: that document does not install it again.
type Remove struct {
	Model, Job string
	Wanted     *Version
	Rev        int64
}

// Look asks for steps that could not be begun yet: what they waited for may have come.
type Look struct{}

// Stopping is an orderly end: a version on trial is not to blame for it.
type Stopping struct{}

// begin takes up what waits in Slot.Next.
type begin struct{ Model string }

// unsaved says that the state after another event could not be stored, and that
// nothing was done.
type unsaved struct {
	of  Event
	err *control.Error
}

func (Boot) event()     {}
func (Want) event()     {}
func (Seen) event()     {}
func (Done) event()     {}
func (Failed) event()   {}
func (Cancel) event()   {}
func (Rollback) event() {}
func (Forgive) event()  {}
func (Remove) event()   {}
func (Look) event()     {}
func (Stopping) event() {}
func (begin) event()    {}
func (unsaved) event()  {}

// Action is something to do, in the order in which Step returns them.
type Action interface{ action() }

// Save stores the state. It is always the first action. If it Must be stored and
// cannot, the others are not carried out and the state before counts; otherwise they
// are, and storing is tried again later.
type Save struct{ Must bool }

// Run is a step, carried out one after the other. Its result is an event.
type Run struct {
	Model   string
	Phase   Phase
	Version Version
}

// Stop gives up the steps of a model; they have no results.
type Stop struct{ Model string }

// Collect removes from the store what State.Installed does not name.
type Collect struct{}

// Again brings an event once more, after a while.
type Again struct{ Event Event }

// Then brings an event as soon as the actions before it are carried out.
type Then struct{ Event Event }

// Report tells what became of an update, or how far it is.
type Report struct {
	Model      string
	Version    Version
	Job        string
	Rev        int64
	Status     Status
	Phase      Phase          // while it is Running
	Err        *control.Error // of Failed, Rejected and Canceled
	RolledBack bool           // the version before serves, or still does; of Rejected: it was tried before, and has ended so then
}

// Status is that of an update, by the name that job records use.
type Status string

// The states of an update.
const (
	Queued    Status = "queued"
	Running   Status = "running"
	Succeeded Status = "succeeded"
	Failure   Status = "failed"
	Rejected  Status = "rejected"
	Canceled  Status = "canceled"
)

func (Save) action()    {}
func (Run) action()     {}
func (Stop) action()    {}
func (Collect) action() {}
func (Again) action()   {}
func (Then) action()    {}
func (Report) action()  {}
