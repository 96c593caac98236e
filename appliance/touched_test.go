// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"windhover/internal/testmodel"
)

// A file that is written over in place by one of the same size and time is an update
// nevertheless, whether it shares its pages with the store or was copied there; a
// change of mode is none.
func TestSameSizeAndTime(t *testing.T) {
	r := newRig(t, t.TempDir())
	ctx := context.Background()
	path := filepath.Join(r.drop, "m.vqf")
	version := func(seed uint64) []byte { return tinyModel(t, func(c *testmodel.Config) { c.Seed = seed }) }
	r.put(t, "m.vqf", version(1))
	r.scan(ctx)
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	digest := func() string { return r.reg.list()[0].SHA256 }
	last := digest()
	for seed := uint64(2); seed < 5; seed++ { // linked, then copied twice or linked again
		overwrite(t, path, version(seed))
		if err := os.Chtimes(path, fi.ModTime(), fi.ModTime()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			r.scan(ctx)
		}
		expect(t, r, "m ready*")
		if digest() == last {
			t.Fatalf("version %d is not noticed", seed)
		}
		last = digest()
	}
	// The bytes that serve are no longer the file's own: written over by themselves.
	overwrite(t, path, version(4))
	for range 3 {
		r.scan(ctx)
	}
	loads := 0
	load := r.load
	r.load = func(ctx context.Context, weights string, in installed) (servable, error) {
		loads++
		return load(ctx, weights, in)
	}
	for _, mode := range []os.FileMode{0o600, 0o640} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		r.scan(ctx)
	}
	expect(t, r, "m ready*")
	if loads != 0 || digest() != last {
		t.Errorf("a change of mode: %d loads", loads)
	}
	overwrite(t, path, version(2)) // nobody is told of this one
	if err := os.Chtimes(path, fi.ModTime(), fi.ModTime()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r.scan(ctx)
	}
	expect(t, r, "m ready*")
	if digest() == last {
		t.Error("a copied file that was written over is not noticed")
	}
}

func TestLowSpaceIsToldOnce(t *testing.T) {
	r := newRig(t, t.TempDir())
	free := int64(10 << 30)
	r.space = func() (int64, bool) { return free, true }
	for _, free = range []int64{10 << 30, reserve, reserve - 1, reserve - 2, reserve + 1, 5, 2 * reserve, 3} {
		r.scan(context.Background())
	}
	if got := fmt.Sprint(r.events); got != "[low_space low_space]" {
		t.Errorf("events %s", got)
	}
}
