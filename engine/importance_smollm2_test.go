// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"windhover/engine"
	"windhover/vqf/convert"
)

// TestSmolLM2Calibrated: calibrated four-bit weights cost at most half of what
// plain rounding costs over eight bits, on a text of another book.
func TestSmolLM2Calibrated(t *testing.T) {
	if testing.Short() {
		t.Skip("reads and computes some 20,000 tokens")
	}
	src := os.Getenv("WINDHOVER_SMOLLM2")
	if src == "" {
		t.Skip("WINDHOVER_SMOLLM2 does not name the model")
	}
	g := readSmolGolden(t)
	text, err := os.ReadFile(filepath.Join("testdata", "calibration", "tom-sawyer.txt"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	eight := loadSmol(t, "q8", engine.Options{})
	list, err := eight.Importance(ctx, eight.Tokenizer().Encode(string(text), true), 512<<20, func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	i := convert.NewImportance("tom-sawyer.txt")
	for _, in := range list {
		i.AddMoments(in.Roles, in.Layer, in.Moments)
	}
	path := filepath.Join(t.TempDir(), "q4.vqf")
	r, err := convert.Run(ctx, src, path, convert.Options{Mode: "q4", Optimize: true, Importance: i}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s in %.1f s", r.Quantiser, r.Seconds)

	loss := func(m *engine.Model) float64 {
		mean, scored, err := m.NLL(ctx, g.NLL.IDs, g.NLL.Window, nil)
		if err != nil || scored != 2458 {
			t.Fatalf("%d tokens scored: %v", scored, err)
		}
		return mean
	}
	calibrated, err := engine.Load(path, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := calibrated.Close(); err != nil {
			t.Error(err)
		}
	}()
	q8, plain, got := loss(eight), loss(loadSmol(t, "q4", engine.Options{})), loss(calibrated)
	t.Logf("mean NLL: q8 %.4f, q4 plain %.4f, calibrated %.4f: %.0f %% of what plain rounding adds", q8, plain, got, 100*(got-q8)/(plain-q8))
	if got-q8 > 0.5*(plain-q8) {
		t.Errorf("calibrated weights cost %.4f nats a token, plain ones %.4f: want half or less", got-q8, plain-q8)
	}
}
