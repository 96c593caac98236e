// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"testing"

	"windhover/internal/testmodel"
	"windhover/vqf"
)

// shape135M is SmolLM2-135M's, with a short vocabulary and a fifth of the
// layers, so that making it takes no time.
func shape135M() testmodel.Config {
	return testmodel.Config{
		Mode: vqf.ModeDual, Q8: vqf.Layout8x8, Q4: vqf.Layout4x4, Random: true,
		Layers: 6, Heads: 9, KVHeads: 3, HeadDim: 64, Dim: 576, FFN: 1536, Vocab: 4096, MaxSeq: 2048, NoNorm: true,
	}
}

func benchModels(b *testing.B, run func(b *testing.B, m *Model)) {
	path := testmodel.Write(b, shape135M())
	for _, family := range []string{"q8", "q4"} {
		for threads := 1; threads <= cores(b); threads *= 2 {
			m := load(b, path, Options{Family: family, Threads: threads, Pin: true})
			b.Run(fmt.Sprintf("%s/%d", family, threads), func(b *testing.B) { run(b, m) })
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, context := range []int{16, 1024} {
		b.Run(fmt.Sprint(context), func(b *testing.B) {
			benchModels(b, func(b *testing.B, m *Model) { benchDecode(b, m, context) })
		})
	}
}

// benchDecode computes one token behind a context, again and again.
func benchDecode(b *testing.B, m *Model, context int) {
	m.seq.cut(0)
	for m.seq.len() < context {
		n := min(m.chunk, context-m.seq.len())
		if err := m.feed(noise(n)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		m.seq.cut(context)
		if err := m.step(5); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tok/s")
	embed, _ := m.file.Tensor("token_embed")
	b.ReportMetric(float64(m.w.bytes-int64(embed.Bytes))*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
}

func BenchmarkPrefill(b *testing.B) {
	benchModels(b, func(b *testing.B, m *Model) { benchPrefill(b, m, 512) })
}

// benchPrefill computes a prompt from an empty cache.
func benchPrefill(b *testing.B, m *Model, tokens int) {
	prompt := noise(tokens)
	b.ReportAllocs()
	for b.Loop() {
		if err := m.prefill(prompt); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(tokens)*float64(b.N)/b.Elapsed().Seconds(), "tok/s")
}
