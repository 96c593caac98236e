// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"context"
	"runtime"
	"testing"

	"windhover/vqf"
)

// What is said of memory is what is taken, from a little less to a quarter more.
func TestEstimate(t *testing.T) {
	a := tinyArch()
	a.VisHidden, a.VisFFN = 256, 1024
	f := writeFile(t, a, "", noiseSource(6))
	pool := newPool(t, 2)
	tower := open(t, f, Options{})
	for size, p := range squares(t, tower.Config()) {
		if size == "large" && testing.Short() {
			continue
		}
		want := float64(tower.Estimate(p.Grid, pool.Size()))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		encode(t, tower, p, pool)
		runtime.ReadMemStats(&after)
		got := float64(after.TotalAlloc - before.TotalAlloc)
		t.Logf("%s: %.2f MB, %.2f said", size, got/1e6, want/1e6)
		if want < 0.95*got || want > 1.25*got {
			t.Errorf("%s: took %.0f bytes, said %.0f", size, got, want)
		}
	}
}

// A plan of a tower, without weights, tells the same.
func TestPlanTellsTheSame(t *testing.T) {
	f := writeFile(t, oddArch(), "", noiseSource(7))
	tower, plan := open(t, f, Options{}), planOf(t, f)
	c := tower.Config()
	for name, p := range squares(t, c) {
		side := int64(c.Patch * c.Merge)
		encode, results := plan.Cost(int64(p.Places())*side*side, 2)
		if want := tower.Estimate(p.Grid, 2); encode != want || results != tower.results(p.Grid) {
			t.Errorf("%s: cost %d, results %d; want %d, %d", name, encode, results, want, tower.results(p.Grid))
		}
	}
	total := int64(0)
	for _, tensor := range f.Tensors() {
		if data, err := f.Data(tensor.Name); err == nil && tensor.Name[:2] == "v_" {
			total += int64(len(data))
		}
	}
	if got := WeightBytes(f); got != total || got == 0 {
		t.Errorf("weights of %d bytes, want %d", got, total)
	}
}

func planOf(t *testing.T, f *vqf.File) *Tower {
	t.Helper()
	p, err := Plan(f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Step by step, with another picture's steps between, a picture is what it is in one
// go, and what is told to be dropped is each large tensor once a frame.
func TestSteps(t *testing.T) {
	f := writeFile(t, tinyArch(), "", noiseSource(8))
	dropped := int64(0)
	tower, plain := open(t, f, Options{Drop: func(data []byte) { dropped += int64(len(data)) }}), open(t, f, Options{})
	c := tower.Config()
	pool := newPool(t, 2)
	film, err := framesOf(&c, []*Image{noiseImage(64, 64, 1), noiseImage(64, 64, 2), noiseImage(64, 64, 3)})
	if err != nil {
		t.Fatal(err)
	}
	list := []*Patches{squares(t, c)["middle"], film}
	var under []*Encoding
	for _, p := range list {
		e, err := tower.Begin(p, pool)
		if err != nil {
			t.Fatal(err)
		}
		under = append(under, e)
	}
	made := make([]*Embedding, len(list))
	for made[0] == nil || made[1] == nil {
		for i, e := range under {
			if made[i] != nil {
				continue
			}
			if made[i], err = e.Step(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, p := range list {
		if !sameBits(made[i].values(), encode(t, plain, p, pool).values()) {
			t.Errorf("picture %d differs", i)
		}
	}
	least := WeightBytes(f) * int64(1+film.Grid.T) * 9 / 10
	if dropped < least || StepBytes(f) >= WeightBytes(f) {
		t.Errorf("%d bytes dropped, want %d and more; a step needs %d of %d", dropped, least, StepBytes(f), WeightBytes(f))
	}
}
