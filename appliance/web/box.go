// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"io"

	"windhover/control"
)

// Box is the appliance behind the handlers. All methods are called from several
// goroutines.
type Box interface {
	// Ask carries out a generation, as control.Server.Ask does.
	Ask(ctx context.Context, r *control.Request, reply func(*control.Reply) error) error

	// Models returns the document of each model.
	Models() []control.Model

	// View is what the page shows now.
	View() View

	// Drop puts what r holds into the drop directory under name, whole or not at all,
	// and returns its length. size is what the client announced, -1: nothing. Errors
	// carry a code: InsufficientStore, Forbidden, BadRequest.
	Drop(ctx context.Context, name string, size int64, r io.Reader) (int64, error)
}

// View is the state of a box at one moment.
type View struct {
	Device  string
	Version string
	Board   string
	State   string // of the connection: a State constant of control
	MQTT    string // where requests come in

	Connected bool   // … and it has its broker
	Drop      string // the drop directory

	RAMBytes int64
	Models   []control.Model
	Stats    control.Stats
	Hour     Hour
	Jobs     []control.JobRecord  // oldest first
	Events   []control.Occurrence // oldest first
}

// Hour is what was done in the last hour.
type Hour struct {
	Requests    int
	Prompt      int     // tokens, the cached ones too
	Cached      int     // of them
	Completion  int     // tokens
	PrefillTokS float64 // tokens a second while prompts were read; 0: none was
	DecodeTokS  float64 // tokens a second of one request while it was answered
}
