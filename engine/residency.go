// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync/atomic"

	"windhover/kernels"
)

// What Options.Residency says, and Info tells.
const (
	ResidencyAuto    = "auto"    // the first of these that fits the memory limit: full, experts, layered
	ResidencyFull    = "full"    // all weights that compute stay in memory
	ResidencyExperts = "experts" // of a mixture of experts: what every token takes stays, and as many experts as fit
	ResidencyLayered = "layered" // the layer in work and the next one do, of a mixture with the experts in work
)

// WeightsRead is how many bytes of weights were read from the file since it was
// loaded, by calls that go past the page cache: 0 where the weights are mapped.
func (m *Model) WeightsRead() int64 { return m.w.res.read() }

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
// mapped (mapped.go) has the weights of a plain file in full residency; streamed
// (streamed.go) those of every other, and expertSlots (expert_slots.go) its experts.
type residency interface {
	// layer returns the weights of layer l.
	layer(l int, stop *atomic.Bool) (*layerWeights, error)
	// experts returns the weights of the first of layer l's experts in ids, which
	// are ascending: at least one, and as many as there is memory for. Until the next
	// call of a method; the rest of ids is what will be asked for then.
	experts(l int, ids []int32, stop *atomic.Bool) ([]expertWeights, error)
	// parts is how many parts the head's matrix comes in.
	parts() int
	// head returns part i of the head and the row of lm that it begins with.
	head(i int, stop *atomic.Bool) (m *kernels.Matrix, row int, err error)
	// embedding returns the stored row of a token, until the next call.
	embedding(id int32) ([]byte, error)
	// read is how many bytes of weights were read from the file by calls: those of
	// a mapping are the system's to count.
	read() int64
	// move does what puts the file in another's place.
	move(rebase func() error) error
	// close frees what the residency itself holds. The file is closed after it.
	close() error
}
