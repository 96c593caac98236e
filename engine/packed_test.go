// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"windhover/internal/testmodel"
)

// windows makes a mapped mixture compute with down as the file has it.
func windows(t testing.TB, m *Model) *Model {
	t.Helper()
	res := m.w.res.(*mapped)
	if err := res.packs.close(); err != nil {
		t.Error(err)
	}
	res.packs = nil
	return m
}

// Whether an expert's down is a window or its copy changes no bit, neither in the
// pass that copies nor after; what is copied is that window, of every expert that
// computed and of no other. A pass that ends early leaves nothing half.
func TestPackedDown(t *testing.T) {
	for _, kind := range []string{"q8", "q4", "q4i"} {
		for _, c := range kindsOf(mixed())[kind] {
			path := testmodel.Write(t, c)
			tokens := noise(30)
			for _, act := range activations() {
				what := fmt.Sprintf("%s, q8 %v, q4 %v, %s", kind, c.Q8, c.Q4, act)
				opt := Options{Activations: act}
				m := windows(t, load(t, path, opt))
				want := logitsOf(t, m, tokens, 0)
				sameBits(t, what+", windows, one by one", logitsOf(t, m, tokens, 1), want)
				m = load(t, path, opt)
				res := m.w.res.(*mapped)
				m.st.stop.Store(true)
				if err := m.feed(tokens[:1]); !errors.Is(err, errStopped) {
					t.Errorf("%s: %v, want %v", what, err, errStopped)
				}
				m.st.stop.Store(false)
				res.packs.left[2].Add(-32) // as an early end leaves it
				used := map[int]bool{}
				m.st.moe.routed = func(layer int, ids []int32) {
					for _, id := range ids {
						used[layer*c.Experts+int(id)] = true
					}
				}
				for i, chunk := range []int{7, 1, 0} {
					sameBits(t, fmt.Sprintf("%s, round %d", what, i), logitsOf(t, m, tokens, chunk), want)
				}
				for i := range res.packs.down {
					if left := res.packs.left[i].Load(); used[i] != (left == 0) && i != 2 {
						t.Errorf("%s: expert %d of all: %d rows are not there, used %v", what, i, left, used[i])
					}
					if !used[i] {
						continue
					}
					window := res.layers[i/c.Experts].down.Part(0, c.Dim, i%c.Experts*c.FFN, (i%c.Experts+1)*c.FFN)
					copied := make([]byte, len(res.packs.down[i].Data))
					if window.CopyRows(copied, 0, c.Dim); !bytes.Equal(copied, res.packs.down[i].Data) {
						t.Errorf("%s: expert %d of all is not its window", what, i)
					}
				}
			}
		}
	}
}

// Copies are taken where all of the file and they fit the limit.
func TestPackedDownByLimit(t *testing.T) {
	path := testmodel.Write(t, mixed())
	opt := Options{Context: 64}
	most, err := Estimate(path, opt)
	if err != nil || !most.packs || most.Private == 0 {
		t.Fatalf("without a limit: %+v, %v", most, err)
	}
	for limit, want := range map[int64]bool{most.Total(): true, most.Total() - 1: false, most.Total() - most.Private: false} {
		opt.MemoryLimit = limit
		n, err := Estimate(path, opt)
		if err != nil || n.Residency != ResidencyFull || n.packs != want || n.Total() > limit {
			t.Errorf("limit %d: %+v, %v", limit, n, err)
		}
	}
}
