// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"windhover/vqf"
)

// weighed counts the cost of the units that are done, and the most that one has.
func weighed(e *Encoding) (done *atomic.Int64, most *int64) {
	done, most = new(atomic.Int64), new(int64)
	part := e.part
	e.part = func(frame, i int) []stage {
		list := slices.Clone(part(frame, i))
		for i := range list {
			do, cost := list[i].do, list[i].cost
			*most = max(*most, cost)
			list[i].do = func(worker, u int) {
				done.Add(cost)
				do(worker, u)
			}
		}
		return list
	}
	return done, most
}

// A step does a bounded amount of work, also where a block has more: those who are
// answered beside a picture wait for a step, and each shows that work moves. Where
// steps end changes no bit.
func TestStepsAreBounded(t *testing.T) {
	const workers = 2
	for name, a := range map[string]vqf.Arch{"tiny": tinyArch(), "odd": oddArch()} {
		f := writeFile(t, a, "", noiseSource(9))
		for _, opt := range []Options{{}, {Reference: true}} {
			tower := open(t, f, opt)
			size := "large"
			if opt.Reference || testing.Short() {
				size = "middle" // its blocks are more than a step, too
			}
			p := squares(t, tower.Config())[size]
			pool := newPool(t, workers)
			want := encode(t, tower, p, pool).values()
			for _, work := range []int64{3_000, 300_000} {
				tower.work = work
				e, err := tower.Begin(p, pool)
				if err != nil {
					t.Fatal(err)
				}
				done, most := weighed(e)
				steps, total := int64(0), int64(0)
				var made *Embedding
				for made == nil {
					before := pool.Runs()
					if made, err = e.Step(context.Background()); err != nil {
						t.Fatal(err)
					}
					steps++
					n := done.Swap(0)
					total += n
					if n == 0 || n > workers*max(work, *most) {
						t.Fatalf("%s, reference %v, %d a worker: a step does %d, units have up to %d", name, opt.Reference, work, n, *most)
					}
					if pool.Runs() == before {
						t.Fatal("a step that nobody can see")
					}
				}
				n := p.Grid.H * p.Grid.W
				if attention := int64(a.VisDepth) * attendCost(n, n, int(a.VisHidden)); total < attention {
					t.Errorf("%s: %d done in all, attention alone is %d", name, total, attention)
				}
				if least := total / (workers * max(work, *most)); steps < least {
					t.Errorf("%s, reference %v, %d a worker: %d steps, want %d and more", name, opt.Reference, work, steps, least)
				}
				if !sameBits(made.values(), want) {
					t.Errorf("%s, reference %v, %d a worker: other bits", name, opt.Reference, work)
				}
			}
		}
	}
}

// A block of a large picture in the tower of 2B is no single step, nor is one unit of
// it: in costs, nothing is computed.
func TestLargePictureInSteps(t *testing.T) {
	a := tinyArch()
	a.VisDepth, a.VisHidden, a.VisHeads, a.VisFFN, a.VisDSCount, a.VisDSIdx = 1, 1024, 16, 4096, 0, [4]int32{}
	tower := open(t, writeFile(t, a, "", func(_ string, _, n int) []float32 { return make([]float32, n) }), Options{})
	c := tower.Config()
	p := &Patches{Grid{1, 128, 128}, c, [][]uint8{make([]uint8, 3*2048*2048)}} // 2048 x 2048 pixels
	e, err := tower.Begin(p, newPool(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for i := range e.parts {
		for _, s := range e.part(0, i) {
			total += int64(s.units) * s.cost
			if s.cost > stepCost {
				t.Errorf("part %d: a unit costs %d, a step at most %d", i, s.cost, stepCost)
			}
		}
	}
	if total < 500*stepCost {
		t.Errorf("%d in all are %d steps of a worker", total, total/stepCost)
	}
}
