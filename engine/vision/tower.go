// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"fmt"

	"windhover/vqf"
)

// Options say how a tower computes.
type Options struct {
	// Reference computes with dequantised weights and float32 activations, in
	// plain Go: what the tower means, to compare with.
	Reference bool
	// Data gives the bytes of a tensor, from a multiple of 4 on, which must stay
	// as long as the tower is used; nil: the mapping of the file. It is for files
	// whose data is not in memory, such as encrypted ones.
	Data func(name string) ([]byte, error)
	// Drop is called with bytes of Data, or of the mapping, that a picture does not
	// need any more before its next frame; nil: nobody wants to know.
	Drop func(data []byte)
}

// Tower is the vision tower of an open file. It holds no memory of its own
// between calls.
type Tower struct {
	cfg       Config
	s         *shape
	w         *weights
	reference bool
	chunk     int   // patches that go through a matrix together
	work      int64 // of a worker in a step
	levels    int   // of DeepStack
	depth     int64 // blocks
	drop      func([]byte)
}

// Open binds the tower of a file, which must stay open; nothing of the data is
// read yet. The error is a file without a tower or one of a shape that is not
// computed with (vqf.ErrUnsupported), or with its data not in memory.
func Open(f *vqf.File, opt Options) (*Tower, error) {
	t, err := plan(f, opt)
	if err != nil {
		return nil, err
	}
	data := opt.Data
	if data == nil {
		data = f.Data
	}
	if t.w, err = bind(f, t.s, data); err != nil {
		return nil, err
	}
	return t, nil
}

// plan is the tower of a file's header, without weights.
func plan(f *vqf.File, opt Options) (*Tower, error) {
	if !f.HasVision() {
		return nil, fmt.Errorf("vision: %s holds no vision tensors: %w", f.Path(), vqf.ErrUnsupported)
	}
	t := &Tower{reference: opt.Reference, chunk: chunkPatches, work: stepCost, drop: opt.Drop, levels: int(f.Arch().VisDSCount), depth: int64(f.Arch().VisDepth)}
	var err error
	if t.cfg, err = ConfigOf(f); err != nil {
		return nil, err
	}
	t.s, err = shapeOf(f)
	return t, err
}

// Config is what the model does with pictures.
func (t *Tower) Config() Config { return t.cfg }

// Dim is the width of a place's embedding, that of the text model.
func (t *Tower) Dim() int { return t.s.out }

// Levels is the number of DeepStack features: that of text layers which get
// one.
func (t *Tower) Levels() int { return t.levels }

// Embedding is what a picture is to the text model.
type Embedding struct {
	Grid      Grid
	Places    int         // of all frames of the tower
	Tokens    []float32   // [Places][Dim], in the order of the prompt: what the places begin with
	DeepStack [][]float32 // [Levels][Places][Dim]: level i is added to the places after text layer i
}

// outputs are where the places of a frame go: that of a merger of the list, or
// the main one's for -1.
func (t *Tower) outputs(e *Embedding, level, frame int) []float32 {
	n := e.Places / e.Grid.T * t.s.out
	x := e.Tokens
	if level >= 0 {
		x = e.DeepStack[level]
	}
	return x[frame*n:][:n]
}
