// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"os"
	"testing"

	"windhover/vqf"
)

// BenchmarkFNV is the checksum's serial chain, alone.
func BenchmarkFNV(b *testing.B) {
	p := make([]byte, 1<<20)
	b.SetBytes(int64(len(p)))
	var sum uint64
	for b.Loop() {
		sum ^= vqf.FNV(p)
	}
	if sum == 1 {
		b.Log("never: keeps the sum alive")
	}
}

// BenchmarkOpen is a load of the published 2B file, up to the first pointer.
func BenchmarkOpen(b *testing.B) {
	path := sparse(b, publishedFiles()[0].plan(b))
	for b.Loop() {
		f, err := vqf.Open(path, vqf.OpenOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := f.Data("q4_q"); err != nil {
			b.Fatal(err)
		}
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerify is the full check with checksum and SHA-256, from the page
// cache.
func BenchmarkVerify(b *testing.B) {
	plan := publishedFiles()[0].plan(b)
	plan.Tensors = plan.Tensors[:0]
	small, err := vqf.NewPlan(specOf(miniArch(), vqf.ModeQ4, vqf.Layout8x8, 0))
	if err != nil {
		b.Fatal(err)
	}
	plan.Header, plan.Tensors = small.Header, append(small.Tensors, vqf.Tensor{Name: "filler", Type: vqf.F32, Rows: 1 << 24, Cols: 1, Bytes: 64 << 20})
	if err := plan.Rechain(); err != nil {
		b.Fatal(err)
	}
	path := sparse(b, plan)
	st, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(st.Size())
	for b.Loop() {
		if _, err := vqf.Verify(b.Context(), path, vqf.VerifyOptions{}, nil); err != nil {
			b.Fatal(err)
		}
	}
}
