// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"windhover/vqf"
	"windhover/vqf/seal"
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
// cache; share is its part of the speed that the checksum alone has at the same
// time on the same machine.
func BenchmarkVerify(b *testing.B) {
	path := benchFile(b, vqf.Spec{}, vqf.CreateOptions{})
	against(b, path, func(p []byte) { sink64 += vqf.FNV(p) }, func() error {
		_, err := vqf.Verify(b.Context(), path, vqf.VerifyOptions{}, nil)
		return err
	})
}

// BenchmarkEncrypted opens and verifies an encrypted file from the page cache;
// share is its part of the speed of one SM3 stream alone.
func BenchmarkEncrypted(b *testing.B) {
	key := vectorKey(b)
	path := benchFile(b, vqf.Spec{Encrypt: true}, vqf.CreateOptions{Key: key})
	sm3 := seal.NewSM3()
	alone := func(p []byte) { sm3.Write(p) }
	for name, opt := range map[string]vqf.OpenOptions{"open": {}, "lazy": {Lazy: true}} {
		b.Run(name, func(b *testing.B) {
			opt.Key = key
			against(b, path, alone, func() error {
				f, err := vqf.Open(path, opt)
				if err != nil {
					return err
				}
				return f.Close()
			})
		})
	}
	signed := benchFile(b, vqf.Spec{Encrypt: true, Signed: true}, vqf.CreateOptions{Key: key, Sign: private(b, vectorD)})
	b.Run("verify-signed", func(b *testing.B) { // a second stream of SM3
		against(b, signed, alone, func() error {
			r, err := vqf.Verify(b.Context(), signed, vqf.VerifyOptions{Key: key}, nil)
			if err == nil && !r.Signature.Valid {
				err = r.Err()
			}
			return err
		})
	})
	b.Run("verify", func(b *testing.B) {
		against(b, path, alone, func() error {
			r, err := vqf.Verify(b.Context(), path, vqf.VerifyOptions{Key: key}, nil)
			if err == nil && !r.TagOK { // the rest is noise, not weights
				err = r.Err()
			}
			return err
		})
	})
	b.Run("decipher", func(b *testing.B) { // without a hash: what Verified saves
		st, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(st.Size())
		for b.Loop() {
			b.StopTimer()
			warm(b, path)
			b.StartTimer()
			f, err := vqf.Open(path, vqf.OpenOptions{Key: key, Verified: true})
			if err != nil {
				b.Fatal(err)
			}
			if err := f.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

var sink64 uint64 // keeps sums alive

// against times do, which reads path once, and right before it alone over as many
// bytes in memory, so that both meet the same machine and load.
func against(b *testing.B, path string, alone func([]byte), do func() error) {
	b.Helper()
	st, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	p := make([]byte, 1<<20)
	var first, second time.Duration
	b.SetBytes(st.Size())
	for b.Loop() {
		b.StopTimer()
		start := time.Now()
		for n := int64(0); n < st.Size(); n += int64(len(p)) {
			alone(p)
		}
		first += time.Since(start)
		warm(b, path)
		b.StartTimer()
		start = time.Now()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		second += time.Since(start)
	}
	b.ReportMetric(float64(st.Size())*float64(b.N)/1e6/first.Seconds(), "alone-MB/s")
	b.ReportMetric(100*first.Seconds()/second.Seconds(), "%share")
}

// warm reads a file into the page cache: Open lets an encrypted one go out of it.
func warm(b *testing.B, path string) {
	b.Helper()
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, f); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
}

// benchFile makes a file of 64 MB, or of WINDHOVER_BENCH_MB.
func benchFile(b *testing.B, how vqf.Spec, opt vqf.CreateOptions) string {
	b.Helper()
	mb := 64
	if s := os.Getenv("WINDHOVER_BENCH_MB"); s != "" {
		var err error
		if mb, err = strconv.Atoi(s); err != nil {
			b.Fatal(err)
		}
	}
	s := specOf(miniArch(), vqf.ModeQ4, vqf.Layout8x8, 0)
	s.Encrypt, s.Signed = how.Encrypt, how.Signed
	plan, err := vqf.NewPlan(s)
	if err != nil {
		b.Fatal(err)
	}
	plan.Tensors = append(plan.Tensors, vqf.Tensor{Name: "filler", Type: vqf.F32, Rows: uint32(mb) << 8, Cols: 1 << 10, Bytes: uint64(mb) << 20})
	if err := plan.Rechain(); err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "bench.vqf")
	w, err := vqf.CreateWith(path, plan, opt)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Abort()
	noise := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{}).Read(noise)
	for {
		_, left, ok := w.Next()
		if !ok {
			break
		}
		if _, err := w.Write(noise[:min(uint64(len(noise)), left)]); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := w.Commit(); err != nil {
		b.Fatal(err)
	}
	return path
}
