// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"unsafe"

	"windhover/kernels"
	"windhover/vqf"
)

// binder finds tensors and collects the first error, so that the list of them
// reads as one.
type binder struct {
	f      *vqf.File
	c      *Config
	family string
	layout kernels.Layout
	err    error
}

func (b *binder) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf(format, args...)
	}
}

// size is the length of a tensor, which must be that of count equal parts.
func (b *binder) size(name string, count int) int64 {
	t, ok := b.f.Tensor(name)
	if !ok {
		b.fail("engine: no tensor %q", name)
	}
	if t.Bytes%uint64(count) != 0 {
		b.fail("engine: tensor %q: %d bytes do not divide into %d layers", name, t.Bytes, count)
	}
	return int64(t.Bytes)
}

// view is a tensor's bytes in the mapped file.
func (b *binder) view(name string) []byte {
	data, err := b.f.Data(name)
	if err != nil {
		b.fail("engine: %w", err)
	}
	return data
}

// floats reads an F32 tensor of n values for each of count parts into memory of
// its own.
func (b *binder) floats(name string, count, n int) [][]float32 {
	parts := make([][]float32, count)
	t, ok := b.f.Tensor(name)
	if !ok || t.Type != vqf.F32 || t.Bytes != 4*uint64(count)*uint64(n) {
		b.fail("engine: tensor %q: %v of %d bytes, want F32 of %d x %d values", name, t.Type, t.Bytes, count, n)
		return parts
	}
	all := make([]float32, count*n)
	// Files are little-endian, and so are the machines this runs on; the slice
	// lives as long as all.
	if err := b.f.ReadTensor(name, 0, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(all))), 4*len(all))); err != nil {
		b.fail("engine: %w", err)
		return parts
	}
	for i := range parts {
		parts[i] = all[i*n : (i+1)*n : (i+1)*n]
	}
	return parts
}

// matrix is data as a matrix of the file's layout.
func (b *binder) matrix(name string, data []byte, rows, cols int) kernels.Matrix {
	if b.err != nil {
		return kernels.Matrix{}
	}
	m, err := kernels.NewMatrix(data, rows, cols, b.layout)
	if err != nil {
		b.fail("engine: tensor %q: %w", name, err)
	}
	return m
}

// vectors are the layers without their matrices.
func (b *binder) vectors() []layerWeights {
	nl, c := b.c.Layers, b.c
	layers := make([]layerWeights, nl)
	attnNorm, ffnNorm := b.floats("attn_norm", nl, c.Dim), b.floats("ffn_norm", nl, c.Dim)
	qNorm, kNorm := make([][]float32, nl), make([][]float32, nl)
	if c.QKNorm {
		qNorm, kNorm = b.floats("q_norm", nl, c.HeadDim), b.floats("k_norm", nl, c.HeadDim)
	}
	router := make([][]float32, nl)
	if c.NExperts > 0 {
		router = b.floats("moe_router", nl, c.NExperts*c.Dim)
	}
	for l := range layers {
		layers[l] = layerWeights{attnNorm: attnNorm[l], ffnNorm: ffnNorm[l], qNorm: qNorm[l], kNorm: kNorm[l], router: router[l]}
	}
	return layers
}

// embedding checks the table's size and returns the bytes of a row.
func (b *binder) embedding() int {
	elem := 2
	if b.f.Flags()&vqf.FlagEmbF16 == 0 {
		elem = 4
	}
	if n := b.size("token_embed", 1); n != int64(elem)*int64(b.c.Vocab)*int64(b.c.Dim) {
		b.fail("engine: tensor %q: %d bytes, want %d x %d x %d", "token_embed", n, b.c.Vocab, b.c.Dim, elem)
	}
	return elem * b.c.Dim
}
