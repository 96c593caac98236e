// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"context"
	"os"
	"slices"
	"testing"
	"time"
)

// BenchmarkPicture computes a picture of 512 x 512 pixels and a text of 700 tokens in
// turn, with the model that WINDHOVER_SEEING names, and reports what the first takes
// of the time of the second:
//
//	go run ./scripts/seed-model -vqf q8 -shape qwen3-vl-2b -o 2b.vqf
//	WINDHOVER_SEEING=2b.vqf go test -run - -bench Picture ./engine
func BenchmarkPicture(b *testing.B) {
	path := os.Getenv("WINDHOVER_SEEING")
	if path == "" {
		b.Skip("WINDHOVER_SEEING names no model")
	}
	m := load(b, path, Options{Threads: 1, Context: 1024, NoTokenizer: true})
	pic, err := m.Picture(context.Background(), bytes.NewReader(noisePNG(b, 512, 512, 1)))
	if err != nil {
		b.Fatal(err)
	}
	text := make([]int32, 700)
	for i := range text {
		text[i] = int32(100 + 7*i)
	}
	ctx := context.Background()
	var ratios []float64
	for b.Loop() {
		end, err := m.begin(ctx)
		if err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		_, err = m.sight.tower.Encode(ctx, pic.patches, m.pool)
		picture := time.Since(start)
		end(&err)
		if err != nil {
			b.Fatal(err)
		}
		start = time.Now()
		if _, _, err := m.Greedy(ctx, text, 1); err != nil {
			b.Fatal(err)
		}
		ratios = append(ratios, picture.Seconds()/time.Since(start).Seconds())
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "of-prefill")
}
