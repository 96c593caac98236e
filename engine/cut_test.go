// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"windhover/internal/testmodel"
	"windhover/kernels"
	"windhover/vqf"
)

// A file that is cut short while requests are under way ends those that need what is
// gone, each with an error that says so; all others get the tokens they get alone, also
// from what was kept of the prompts of those that failed.
func TestCutUnderWay(t *testing.T) {
	if !faultsHaveAddresses(t) {
		t.Skip("qemu's user mode gives SIGBUS no address, so that it looks like a nil pointer")
	}
	for _, kind := range []string{"dense", "mixture", "vision"} {
		for _, residency := range []string{ResidencyFull, ResidencyExperts, ResidencyLayered} {
			if residency != ResidencyExperts || kind == "mixture" {
				t.Run(kind+" "+residency, func(t *testing.T) { cutUnderWay(t, kind, residency) })
			}
		}
	}
}

func cutUnderWay(t *testing.T, kind, residency string) {
	c := noisy()
	c.Layers, c.Dim, c.FFN = 4, 256, 512
	switch kind {
	case "mixture":
		c = fewOfMany()
	case "vision":
		c = testmodel.Config{Vision: true, Random: true, Q8: 2}
	}
	c.MaxSeq = 512
	path := testmodel.Write(t, c)
	whole := readFile(t, path)
	m := load(t, path, Options{Threads: min(2, cores(t)), Residency: residency})
	req := Request{Tokens: noise(150), MaxTokens: 20, IgnoreEOS: true, Raw: true}
	if kind == "vision" {
		req.Tokens, req.Pictures = sceneOf(t, m)
	}
	var list []Request
	for i := range 4 {
		r := req
		r.Tokens = slices.Clone(req.Tokens)
		r.Tokens[0] = int32(i)
		r.Client = fmt.Sprint(i)
		list = append(list, r)
	}
	want := alone(t, m, list)
	forget(t, m)
	var all sync.WaitGroup
	var said, failed atomic.Int32
	for i, r := range list {
		all.Go(func() {
			for k := range 6 {
				r.Realm = fmt.Sprint(k / 2) // where nothing is known of the pictures
				res, err := m.Generate(context.Background(), r, func(e Event) error {
					if e.Delta != nil && said.Add(1) == 10 { // in the middle of answers
						return os.Truncate(path, int64(len(whole))/3/4096*4096)
					}
					return nil
				})
				var fault *kernels.FaultError
				switch {
				case err == nil && !slices.Equal(res.Tokens, want[i]):
					t.Errorf("request %d gives %v, alone %v", i, res.Tokens, want[i])
				case err != nil && !errors.As(err, &fault) && !errors.Is(err, ErrChanged) && !errors.Is(err, vqf.ErrFormat):
					t.Errorf("request %d: %v", i, err)
				case err != nil:
					failed.Add(1)
				}
			}
		})
	}
	all.Wait()
	if failed.Load() == 0 {
		t.Error("nobody missed two thirds of the file")
	}
	if residency != ResidencyFull {
		return // the file counts as changed from now on
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, r := range list {
		r.Realm = fmt.Sprint(i % 3)
		if got := tokensOf(t, m, r); !slices.Equal(got, want[i]) {
			t.Errorf("with the file back, request %d gives %v, alone %v", i, got, want[i])
		}
	}
}
