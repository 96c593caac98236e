// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"windhover/kernels"
	"windhover/vqf"
)

// Tolerances of the goldens: the float path differs in the order of sums only,
// int8 activations are noise of about half of what is allowed.
const (
	floatRelative = 1e-3
	int8RelRMS    = 0.03
)

func readFloats(t testing.TB, name string) []float32 {
	t.Helper()
	_, b := readNPY(t, filepath.Join(goldenDir, "golden", name))
	x := make([]float32, len(b)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return x
}

// deviation is the largest difference as a share of the range, and the
// root mean square of the differences as a share of that of the values.
func deviation(t testing.TB, got, want []float32) (ofRange, relRMS float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d values, want %d", len(got), len(want))
	}
	var most, sum, all float64
	for i, v := range got {
		d := math.Abs(float64(v) - float64(want[i]))
		if !(d >= 0) {
			t.Fatalf("value %d is %g", i, v)
		}
		most, sum, all = max(most, d), sum+d*d, all+float64(want[i])*float64(want[i])
	}
	return most / float64(slices.Max(want)-slices.Min(want)), math.Sqrt(sum / all)
}

func open(t testing.TB, f *vqf.File, opt Options) *Tower {
	t.Helper()
	tower, err := Open(f, opt)
	if err != nil {
		t.Fatal(err)
	}
	return tower
}

func encode(t testing.TB, tower *Tower, p *Patches, pool *kernels.Pool) *Embedding {
	t.Helper()
	e, err := tower.Encode(context.Background(), p, pool)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// values are all numbers of an embedding.
func (e *Embedding) values() []float32 {
	return slices.Concat(append([][]float32{e.Tokens}, e.DeepStack...)...)
}

func TestTowerLikeReference(t *testing.T) {
	f := writeFile(t, tinyArch(), "", goldenSource(t))
	pool := newPool(t, 2)
	pictures := map[string]*Patches{}
	for _, name := range []string{"a", "b", "c"} {
		p, err := tiny.Still(decodeGolden(t, name))
		if err != nil {
			t.Fatal(err)
		}
		pictures[name] = p
	}
	var err error
	if pictures["video"], err = framesOf(&tiny, videoFrames(t)); err != nil {
		t.Fatal(err)
	}
	for name, p := range pictures {
		for _, reference := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/reference=%v", name, reference), func(t *testing.T) {
				e := encode(t, open(t, f, Options{Reference: reference}), p, pool)
				if e.Places != p.Places() || len(e.DeepStack) != 3 {
					t.Errorf("%d places, %d levels, want %d and 3", e.Places, len(e.DeepStack), p.Places())
				}
				n := len(e.Tokens)
				deep := readFloats(t, "vision_"+name+"_vqf_deepstack.npy")
				for i, got := range append([][]float32{e.Tokens}, e.DeepStack...) {
					want := readFloats(t, "vision_"+name+"_vqf_merged.npy")
					what := "merged"
					if i > 0 {
						want, what = deep[(i-1)*n:][:n], fmt.Sprintf("deepstack %d", i-1)
					}
					ofRange, relRMS := deviation(t, got, want)
					t.Logf("%s: %.2g of the range, relative RMS %.2g", what, ofRange, relRMS)
					if reference && (ofRange > floatRelative || relRMS > floatRelative) {
						t.Errorf("%s: %g of the range, relative RMS %g, want at most %g", what, ofRange, relRMS, floatRelative)
					}
					if relRMS > int8RelRMS {
						t.Errorf("%s: relative RMS %g, want at most %g", what, relRMS, int8RelRMS)
					}
				}
			})
		}
	}
}

// oddArch has nothing in common with the golden model that could be by chance:
// rows of the MLP that are no multiple of 32, heads of 24 values, places of 3 x 3
// patches of 3 frames, no DeepStack.
func oddArch() vqf.Arch {
	a := tinyArch()
	a.VisDepth, a.VisHidden, a.VisHeads, a.VisFFN, a.VisPatch, a.VisTemporal, a.VisMerge = 2, 96, 4, 72, 4, 3, 3
	a.VisMaxPos, a.VisDSCount, a.VisDSIdx = 50, 0, [4]int32{}
	return a
}

// squares are pictures of which the larger goes over every border: of chunks,
// blocks of attention, tiles and chunks of places.
func squares(t testing.TB, c Config) map[string]*Patches {
	t.Helper()
	list := map[string]*Patches{}
	for name, side := range map[string]int{"small": 2, "middle": 6, "large": 18} {
		m := noiseImage(side*c.factor(), (side-1)*c.factor(), 7)
		p := &Patches{Grid{1, m.Height / c.Patch, m.Width / c.Patch}, c, [][]uint8{m.Pix}}
		list[name] = p
	}
	return list
}

// The int8 path stays near the reference path for any geometry.
func TestTowerLikeItsReference(t *testing.T) {
	pool := newPool(t, 2)
	for name, arch := range map[string]vqf.Arch{"tiny": tinyArch(), "odd": oddArch()} {
		f := writeFile(t, arch, "", noiseSource(1))
		exact, tower := open(t, f, Options{Reference: true}), open(t, f, Options{})
		for size, p := range squares(t, tower.Config()) {
			if size == "large" {
				continue // the reference path is plain Go
			}
			ofRange, relRMS := deviation(t, encode(t, tower, p, pool).values(), encode(t, exact, p, pool).values())
			t.Logf("%s, %s: %.2g of the range, relative RMS %.2g", name, size, ofRange, relRMS)
			if relRMS > int8RelRMS {
				t.Errorf("%s, %s: relative RMS %g, want at most %g", name, size, relRMS, int8RelRMS)
			}
		}
	}
}

// One result for any number of workers and any chunk.
func TestWorkersAndChunksGiveTheSameBits(t *testing.T) {
	for _, arch := range []vqf.Arch{tinyArch(), oddArch()} {
		f := writeFile(t, arch, "", noiseSource(2))
		for _, opt := range []Options{{}, {Reference: true}} {
			tower := open(t, f, opt)
			p := squares(t, tower.Config())["large"]
			switch {
			case opt.Reference:
				p = squares(t, tower.Config())["small"]
			case testing.Short():
				p = squares(t, tower.Config())["middle"]
			}
			want := encode(t, tower, p, newPool(t, 1)).values()
			for _, chunk := range []int{16, 100, chunkPatches} {
				tower.chunk = chunk
				for workers := 1; workers <= 3; workers++ {
					got := encode(t, tower, p, newPool(t, workers)).values()
					if !sameBits(got, want) {
						t.Errorf("%d workers, chunks of %d, reference %v: other bits", workers, chunk, opt.Reference)
					}
				}
			}
		}
	}
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// One constant for every architecture and every set of kernels. The large
// picture is left out where there are no kernels to speak of.
func TestBitsAreTheSameEverywhere(t *testing.T) {
	for size, want := range map[string]uint64{"small": 0x45be71708d3342de, "middle": 0x46ca21d3c4d086c0, "large": 0x99ddeec4d879099} {
		if size == "large" && testing.Short() {
			continue
		}
		h := fnv.New64a()
		for _, arch := range []vqf.Arch{tinyArch(), oddArch()} {
			tower := open(t, writeFile(t, arch, "", noiseSource(3)), Options{})
			e := encode(t, tower, squares(t, tower.Config())[size], newPool(t, 2))
			if err := binary.Write(h, binary.LittleEndian, e.values()); err != nil {
				t.Fatal(err)
			}
		}
		if got := h.Sum64(); got != want {
			t.Errorf("%s: digest %#x, want %#x", size, got, want)
		}
	}
}

// A frame of a video is computed as if there were no other.
func TestFramesAreOnTheirOwn(t *testing.T) {
	tower := open(t, writeFile(t, tinyArch(), "", noiseSource(4)), Options{})
	c := tower.Config()
	var frames []*Image
	for i := range 4 {
		frames = append(frames, noiseImage(64, 96, uint64(i)))
	}
	p, err := framesOf(&c, frames)
	if err != nil {
		t.Fatal(err)
	}
	pool := newPool(t, 2)
	all := encode(t, tower, p, pool)
	for i := range 2 {
		one, err := framesOf(&c, frames[2*i:][:2])
		if err != nil {
			t.Fatal(err)
		}
		e := encode(t, tower, one, pool)
		n := len(e.Tokens)
		if !sameBits(all.Tokens[i*n:][:n], e.Tokens) {
			t.Errorf("frame %d: tokens differ", i)
		}
		for level, x := range e.DeepStack {
			if !sameBits(all.DeepStack[level][i*n:][:n], x) {
				t.Errorf("frame %d: level %d differs", i, level)
			}
		}
	}
}

func TestEncodeCancelled(t *testing.T) {
	tower := open(t, writeFile(t, tinyArch(), "", noiseSource(5)), Options{})
	p := squares(t, tower.Config())["middle"]
	pool := newPool(t, 2)
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("enough")
	cancel(why)
	if _, err := tower.Encode(ctx, p, pool); !errors.Is(err, why) {
		t.Errorf("error %v, want %v", err, why)
	}
	want := encode(t, tower, p, pool).values()
	// Somewhere in the middle: an error or the whole result, and the pool is
	// of use afterwards.
	for stop := int64(1); stop < 400; stop *= 3 {
		ctx, cancel := context.WithCancelCause(context.Background())
		r := stopAfter{Context: ctx, cancel: func() { cancel(why) }, left: stop}
		if e, err := tower.Encode(&r, p, pool); err == nil && !sameBits(e.values(), want) || err != nil && !errors.Is(err, why) {
			t.Errorf("after %d steps: error %v", stop, err)
		}
		cancel(nil)
	}
}

// stopAfter is a context that ends when it was asked so often whether it has.
type stopAfter struct {
	context.Context
	cancel func()
	left   int64
}

func (s *stopAfter) Value(key any) any {
	if s.left--; s.left == 0 {
		s.cancel()
	}
	return s.Context.Value(key)
}

// A file that is cut short under its mapping is an error of the picture.
func TestEncodeFault(t *testing.T) {
	f := writeFile(t, tinyArch(), "", noiseSource(5))
	tower, pool := open(t, f, Options{}), newPool(t, 2)
	p := squares(t, tower.Config())["small"]
	encode(t, tower, p, pool)
	if err := os.Truncate(f.Path(), 4096); err != nil {
		t.Fatal(err)
	}
	var fault *kernels.FaultError
	if _, err := tower.Encode(context.Background(), p, pool); !errors.As(err, &fault) {
		t.Errorf("error %v, want a fault", err)
	}
}

func TestEncodeOtherPatches(t *testing.T) {
	tower := open(t, writeFile(t, tinyArch(), "", noiseSource(5)), Options{})
	c := tower.Config()
	c.Patch = 8
	p, err := c.Still(noiseImage(64, 64, 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tower.Encode(context.Background(), p, newPool(t, 1)); err == nil {
		t.Error("patches of 8 pixels for a tower of 16: no error")
	}
}

func TestOpenRefuses(t *testing.T) {
	a := tinyArch()
	a.VisHeads = 32 // of 2 values
	if _, err := Open(writeFile(t, a, "", noiseSource(1)), Options{}); !errors.Is(err, vqf.ErrUnsupported) {
		t.Errorf("heads of 2: error %v, want ErrUnsupported", err)
	}
	a = tinyArch()
	a.VisTemporal = 2048
	a.VisPatch = 1
	if _, err := Open(writeFile(t, a, "", noiseSource(1)), Options{}); !errors.Is(err, vqf.ErrUnsupported) {
		t.Errorf("2048 frames: error %v, want ErrUnsupported", err)
	}
	f := writeFile(t, tinyArch(), "", noiseSource(1))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(f, Options{}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed file: error %v, want ErrClosed", err)
	}
}

// A budget of pixels comes from the metadata.
func TestConfigOf(t *testing.T) {
	for _, c := range []struct {
		meta string
		want Pixels
	}{
		{"", defaultImage},
		{`{"v":1}`, defaultImage},
		{`{"v":1,"vision":{"params":1,"min_pixels":4096,"max_pixels":65536}}`, Pixels{4096, 65536}},
		{`{"vision":{"max_pixels":131072}}`, Pixels{65536, 131072}},
		{`{"vision":{"max_pixels":100}}`, Pixels{65536, 65536}},
	} {
		got, err := ConfigOf(writeFile(t, tinyArch(), c.meta, noiseSource(1)))
		if err != nil || got.Image != c.want || got.Video != defaultVideo || got.Patch != 16 || got.Merge != 2 || got.Temporal != 2 {
			t.Errorf("%q: %+v, %v, want %v", c.meta, got, err, c.want)
		}
	}
	if _, err := ConfigOf(writeFile(t, tinyArch(), `{"vision":{"min_pixels":"many"}}`, noiseSource(1))); err == nil {
		t.Error("pixels in words: no error")
	}
}
