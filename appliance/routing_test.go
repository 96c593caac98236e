// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"windhover/control"
	"windhover/internal/testmodel"
)

// Several models at once: each request goes to the one it names, or that version of
// it, the others to the one that was dropped last; .skip and removal change that, and a
// restart does not.
func TestRouting_P118(t *testing.T) {
	b := startBox(t, nil)
	b.connected(t)
	names := []string{"alpha", "beta", "gamma"}
	digests, texts := map[string]string{}, map[string]string{}
	c := b.client(t, "you")
	ctx, cancel := context.WithTimeout(context.Background(), 2*waitFor)
	defer cancel()
	ask := func(model string) (*control.Answer, error) {
		r := request("hello", 12)
		r.Model = model
		return c.Send(ctx, r, nil)
	}
	for i, name := range names {
		b.drop(t, name+".vqf", tinyModel(t, func(c *testmodel.Config) { c.Seed = uint64(20 + i) }))
		b.ready(t, name)
		digests[name] = modelDigest(t, b, name)
		a, err := ask(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = a.Text
	}
	check := func(model, want string) {
		t.Helper()
		a, err := ask(model)
		if want == "" {
			if !errors.Is(err, control.UnknownModel) {
				t.Errorf("model %q: got %v, want unknown_model", model, err)
			}
			return
		}
		if err != nil || a.Text != texts[want] || a.Done.Model.Name != want || a.Done.Model.SHA256 != digests[want] {
			t.Errorf("model %q: %v, %+v; want an answer of %s", model, err, a, want)
		}
	}
	check("", "gamma")
	check("alpha", "alpha")
	check("beta@"+digests["beta"][:12], "beta")
	check("beta@"+digests["alpha"][:12], "")
	check("beta@", "")
	check("delta", "")
	// All at once, each from its own.
	var wg sync.WaitGroup
	for _, name := range []string{"", "alpha", "beta", "gamma"} {
		other := b.client(t, "c"+name)
		wg.Go(func() {
			for range 5 {
				r := request("hello", 12)
				r.Model = name
				want := name
				if want == "" {
					want = "gamma"
				}
				if a, err := other.Send(ctx, r, nil); err != nil || a.Text != texts[want] {
					t.Errorf("model %q beside others: %v, %+v", name, err, a)
				}
			}
		})
	}
	wg.Wait()
	drop := b.cfg.Paths.drop()
	gone := func(name string) {
		t.Helper()
		until(t, name+" is gone", func() bool { return modelDigest(t, b, name) == "" })
	}
	write(t, filepath.Join(drop, "gamma.vqf.skip"), "")
	gone("gamma")
	check("", "beta")
	check("gamma", "")
	b.restart(t)
	b.connected(t)
	b.ready(t, "alpha")
	b.ready(t, "beta")
	c = b.client(t, "you2")
	check("", "beta")
	check("gamma", "")
	if err := os.Remove(filepath.Join(drop, "beta.vqf")); err != nil {
		t.Fatal(err)
	}
	gone("beta")
	check("", "alpha")
	if err := os.Remove(filepath.Join(drop, "gamma.vqf.skip")); err != nil {
		t.Fatal(err)
	}
	b.ready(t, "gamma")
	check("gamma", "gamma")
}
