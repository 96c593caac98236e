// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"slices"
	"testing"

	"windhover/kernels"
)

func TestChooseCPUs(t *testing.T) {
	type ints = []int
	rk3588 := kernels.Topology{Big: ints{4, 5, 6, 7}, Little: ints{0, 1, 2, 3}, All: ints{0, 1, 2, 3, 4, 5, 6, 7}}
	smt := kernels.Topology{Big: ints{0, 1}, All: ints{0, 1, 2, 3}}
	for _, c := range []struct {
		name string
		topo kernels.Topology
		n    int
		want ints // nil: refused
	}{
		{"all big ones", rk3588, 0, ints{4, 5, 6, 7}},
		{"some big ones", rk3588, 3, ints{4, 5, 6}},
		{"big and little", rk3588, 6, ints{4, 5, 6, 7, 0, 1}},
		{"all there are", rk3588, 8, ints{4, 5, 6, 7, 0, 1, 2, 3}},
		{"more than there are", rk3588, 9, nil},
		{"one thread a core", smt, 0, ints{0, 1}},
		{"second threads", smt, 3, ints{0, 1, 2}},
		{"all threads", smt, 4, ints{0, 1, 2, 3}},
		{"more threads than there are", smt, 5, nil},
	} {
		got, err := chooseCPUs(c.topo, c.n)
		if !slices.Equal(got, c.want) || (err != nil) != (c.want == nil) || err != nil && !errors.Is(err, ErrRequest) {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
}
