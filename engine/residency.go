// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync/atomic"

	"windhover/kernels"
)

// What Options.Residency says, and Info tells.
const (
	ResidencyAuto    = "auto"    // full where it fits the memory limit, else layered
	ResidencyFull    = "full"    // all weights that compute stay in memory
	ResidencyLayered = "layered" // the layer in work and the next one do
)

// residency is where the weights are while a model computes. The forward pass
// asks for each piece just before it computes with it, in the order of the
// decoder: layer 0, 1, …, then the parts of the head, then layer 0 again. So
// that a piece can be brought in while the one before is in use, and may be gone
// when the next one is asked for.
//
// One goroutine uses a residency. What it returns is to be used until the next
// call of layer or head, and is the same bits wherever it comes from. A call that
// waits ends soon after stop is set, with errStopped.
//
// mapped (mapped.go) has the weights of a plain file, full and layered; streamed
// (streamed.go) those of an encrypted one.
type residency interface {
	// layer returns the weights of layer l.
	layer(l int, stop *atomic.Bool) (*layerWeights, error)
	// parts is how many parts the head's matrix comes in.
	parts() int
	// head returns part i of the head and the row of lm that it begins with.
	head(i int, stop *atomic.Bool) (m *kernels.Matrix, row int, err error)
	// embedding returns the stored row of a token, until the next call.
	embedding(id int32) ([]byte, error)
	// move does what puts the file in another's place.
	move(rebase func() error) error
	// close frees what the residency itself holds. The file is closed after it.
	close() error
}
