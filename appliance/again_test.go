// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"windhover/internal/testmodel"
)

// A version that serves from the store is not loaded once more when its file turns out
// to be the one that was installed: weights of gigabytes would be read, or unloaded
// first, for nothing.
func TestServingFileIsNotLoadedAgain(t *testing.T) {
	state := t.TempDir()
	r := newRig(t, state)
	r.put(t, "m.vqf", tinyModel(t, nil))
	r.scan(context.Background())
	expect(t, r, "m ready*")

	count := func(r *rig) *int {
		n, load := 0, r.load
		r.load = func(ctx context.Context, weights string, in installed) (servable, error) {
			n++
			return load(ctx, weights, in)
		}
		return &n
	}
	file, kept := filepath.Join(r.drop, "m.vqf"), filepath.Join(r.drop, ".m.kept")
	for _, tt := range []struct {
		name  string
		bytes []byte
		code  string
	}{
		{"beside something bad", make([]byte, 8192), " format_invalid"},
		{"beside one that is still arriving", tinyModel(t, func(c *testmodel.Config) { c.Seed = 2 })[:8192], ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.Rename(file, kept); err != nil {
				t.Fatal(err)
			}
			r.put(t, "m.vqf", tt.bytes)
			again := newRig(t, state) // a start, which finds that in the place of the model
			n := count(again)
			again.scan(context.Background())
			expect(t, again, "m ready*"+tt.code)
			if *n != 1 {
				t.Fatalf("the start loaded %d times", *n)
			}
			if err := os.Rename(kept, file); err != nil {
				t.Fatal(err)
			}
			again.scan(context.Background())
			expect(t, again, "m ready*")
			if *n != 1 {
				t.Errorf("loaded %d times", *n)
			}
			if !exists(file+".ready") || exists(file+".failed") {
				t.Error("the markers do not say that it serves")
			}
			if again.book.Models["m"].Version == "" {
				t.Error("the record of what is installed is lost")
			}
		})
	}
}
