// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"image"
	"image/color"
	"image/png"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"windhover/engine/vision"
	"windhover/internal/testmodel"
	"windhover/kernels"
)

// noisePNG is a picture of w x h pixels of noise.
func noisePNG(t testing.TB, w, h int, seed uint64) []byte {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			img.SetRGBA(x, y, color.RGBA{uint8(r.Uint32()), uint8(r.Uint32()), uint8(r.Uint32()), 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// seeing loads a model of noise with a tower.
func seeing(t testing.TB, opt Options) *Model {
	t.Helper()
	return load(t, testmodel.Write(t, testmodel.Config{Vision: true, Random: true, Q8: 2, MaxSeq: 512}), opt)
}

func still(t testing.TB, m *Model, w, h int, seed uint64) *Picture {
	t.Helper()
	p, err := m.Picture(context.Background(), bytes.NewReader(noisePNG(t, w, h, seed)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func film(t testing.TB, m *Model, n, w, h int, seed uint64) *Picture {
	t.Helper()
	p, err := m.Video(context.Background(), n, 2, func(i int) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(noisePNG(t, w, h, seed+uint64(i)))), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// sceneOf is a prompt of two stills and a video, with text around them.
func sceneOf(t testing.TB, m *Model) ([]int32, []*Picture) {
	t.Helper()
	pictures := []*Picture{still(t, m, 96, 64, 1), film(t, m, 5, 48, 48, 2), still(t, m, 64, 128, 9)}
	return promptOf(t, m, pictures), pictures
}

// promptOf is a prompt with pictures in that order.
func promptOf(t testing.TB, m *Model, pictures []*Picture) []int32 {
	t.Helper()
	var text strings.Builder
	text.WriteString("Look: ")
	for i, p := range pictures {
		kind := "image"
		if p.Video() {
			kind = "video"
		}
		fmt.Fprintf(&text, "%d <|vision_start|><|%s_pad|><|vision_end|>, ", i, kind)
	}
	text.WriteString("what is it?\n")
	placed, err := m.Place(text.String(), pictures)
	if err != nil {
		t.Fatal(err)
	}
	return m.Tokenizer().Encode(placed, true)
}

// Where chunks end, also within a picture, how many threads there are, and what was
// computed before changes no bit.
func TestPicturesAreDeterministic(t *testing.T) {
	m := seeing(t, Options{Threads: 1})
	ids, pictures := sceneOf(t, m)
	want := seenLogits(t, m, ids, pictures, 0)
	for _, chunk := range []int{1, 7, 16, 33} {
		if got := seenLogits(t, m, ids, pictures, chunk); !slices.Equal(got, want) {
			t.Errorf("chunk %d: logits differ", chunk)
		}
	}
	two := seeing(t, Options{Threads: 2, Chunk: 20})
	if got := seenLogits(t, two, ids, pictures, 0); !slices.Equal(got, want) {
		t.Errorf("two threads: logits differ")
	}
	ref := seeing(t, Options{Activations: "f32"})
	if got := seenLogits(t, ref, ids, pictures, 0); !slices.Equal(got, seenLogits(t, ref, ids, pictures, 13)) {
		t.Errorf("reference path: logits differ by the chunk")
	}
}

// A prompt without pictures is computed as by a model that sees none.
func TestTextBesidePictures(t *testing.T) {
	m := seeing(t, Options{Threads: 1})
	ids := testmodel.Tokens("Only text, and enough of it to fill more than one chunk.")
	alone := seenLogits(t, m, ids, nil, 8)
	withIDs, pictures := sceneOf(t, m)
	seenLogits(t, m, withIDs, pictures, 0)
	if got := seenLogits(t, m, ids, nil, 8); !slices.Equal(got, alone) {
		t.Error("logits of a text differ after pictures")
	}
}

// counted counts what the tower computes.
func counted(m *Model) *int {
	n := new(int)
	begin := m.sight.begin
	m.sight.begin = func(p *vision.Patches, pool *kernels.Pool) (*vision.Encoding, error) {
		*n++
		return begin(p, pool)
	}
	return n
}

func generate(t testing.TB, m *Model, ids []int32, pictures []*Picture) *Result {
	t.Helper()
	res, err := m.Generate(context.Background(), Request{Tokens: ids, Pictures: pictures, MaxTokens: 8, IgnoreEOS: true, Raw: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// The same picture again is not computed again, whoever read it, and gives the same
// tokens.
func TestSamePictureAgain_P121(t *testing.T) {
	m := seeing(t, Options{Threads: 1})
	n := counted(m)
	one := still(t, m, 96, 64, 1)
	first := generate(t, m, promptOf(t, m, []*Picture{one}), []*Picture{one})
	if *n != 1 || first.Usage.Pictures != 1 || first.Usage.PicturesKnown != 0 {
		t.Errorf("%d computed, usage %+v; want 1, of it nothing known", *n, first.Usage)
	}
	// The same pixels, twice in another prompt, behind another picture.
	again, other := still(t, m, 96, 64, 1), still(t, m, 64, 64, 3)
	list := []*Picture{other, again, still(t, m, 96, 64, 1)}
	res := generate(t, m, promptOf(t, m, list), list)
	if *n != 2 || res.Usage.Pictures != 3 || res.Usage.PicturesKnown != 2 {
		t.Errorf("%d computed, usage %+v; want 2, and of 3 pictures 2 known", *n, res.Usage)
	}
	// What the cache of the context holds is not computed either.
	m.sight.kept = embeddings{budget: m.sight.kept.budget}
	res = generate(t, m, promptOf(t, m, list), list)
	if *n != 2 || res.Usage.PicturesKnown != 3 || res.Usage.Cached == 0 {
		t.Errorf("%d computed, usage %+v; want 2, and all known", *n, res.Usage)
	}
	fresh := seeing(t, Options{Threads: 1})
	if want := generate(t, fresh, promptOf(t, fresh, []*Picture{one}), []*Picture{one}); !slices.Equal(first.Tokens, want.Tokens) {
		t.Errorf("tokens %v, want %v", first.Tokens, want.Tokens)
	}
	if want := generate(t, fresh, promptOf(t, fresh, list), list); !slices.Equal(res.Tokens, want.Tokens) {
		t.Errorf("tokens %v, want %v", res.Tokens, want.Tokens)
	}
}

// Of an answer that ends early those pictures are known that were looked at and not
// computed, not those that nobody came to.
func TestPicturesKnownOfACancelledRequest(t *testing.T) {
	m := seeing(t, Options{Threads: 1})
	one, other := still(t, m, 96, 64, 1), still(t, m, 64, 64, 3)
	generate(t, m, promptOf(t, m, []*Picture{one}), []*Picture{one})
	list := []*Picture{still(t, m, 96, 64, 1), other}
	ids := promptOf(t, m, list)
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	res, err := m.Generate(cancelled, Request{Tokens: ids, Pictures: list, MaxTokens: 8, Raw: true}, nil)
	if err != nil || res.Finish != FinishCancel || res.Usage.Pictures != 2 || res.Usage.PicturesKnown != 0 {
		t.Errorf("cancelled before it began: %+v, %v; want no picture known", res, err)
	}
	// The tower begins with the second: the first was looked at and is known.
	ctx, leave := context.WithCancel(context.Background())
	begin := m.sight.begin
	m.sight.begin = func(p *vision.Patches, pool *kernels.Pool) (*vision.Encoding, error) {
		leave()
		givenUp(m)
		return begin(p, pool)
	}
	res, err = m.Generate(ctx, Request{Tokens: ids, Pictures: list, MaxTokens: 8, Raw: true}, nil)
	if err != nil || res.Finish != FinishCancel || res.Usage.PicturesKnown > 1 {
		t.Errorf("cancelled at the second: %+v, %v; want the first known at most", res, err)
	}
	settle(t, m)
	m.sight.begin = begin
	if res := generate(t, m, ids, list); res.Usage.PicturesKnown < 1 {
		t.Errorf("asked again: usage %+v", res.Usage)
	}
}

// givenUp returns when no request in work has anybody left who waits for it: the caller of
// one that is cancelled may see that when its answer is there.
func givenUp(m *Model) {
	s := m.sched
	for {
		s.mu.Lock()
		wanted := slices.ContainsFunc(s.active, func(g *generation) bool { return !g.over })
		s.mu.Unlock()
		if !wanted {
			return
		}
		runtime.Gosched()
	}
}

// Two prompts that differ in a picture alone have the same tokens, and share no more
// than what is before it.
func TestOtherPictureIsNotReused(t *testing.T) {
	m := seeing(t, Options{Threads: 1})
	a, b := still(t, m, 64, 64, 1), still(t, m, 64, 64, 2)
	ids := promptOf(t, m, []*Picture{a})
	if !slices.Equal(ids, promptOf(t, m, []*Picture{b})) {
		t.Fatal("the prompts are not the same tokens")
	}
	first := generate(t, m, ids, []*Picture{a})
	at := slices.Index(ids, testmodel.TokenImage)
	second := generate(t, m, ids, []*Picture{b})
	if second.Usage.Cached > at {
		t.Errorf("%d tokens reused, the picture begins at %d", second.Usage.Cached, at)
	}
	third := generate(t, m, ids, []*Picture{a})
	if !slices.Equal(first.Tokens, third.Tokens) {
		t.Errorf("tokens %v, at first %v", third.Tokens, first.Tokens)
	}
	fresh := seeing(t, Options{Threads: 1})
	if want := generate(t, fresh, ids, []*Picture{b}); !slices.Equal(second.Tokens, want.Tokens) {
		t.Errorf("tokens %v, want %v", second.Tokens, want.Tokens)
	}
}

// A few places that are alike by chance are not taken for the same picture.
func TestSharedStopsBeforePictures(t *testing.T) {
	c := &scene{runs: []run{{at: 10, n: 20}, {at: 40, n: 4}}}
	for _, n := range [][2]int{{9, 9}, {10, 10}, {11, 10}, {17, 10}, {18, 18}, {30, 30}, {41, 40}, {43, 40}, {44, 44}} {
		if got := c.shared(n[0]); got != n[1] {
			t.Errorf("shared(%d) = %d, want %d", n[0], got, n[1])
		}
	}
}

func TestPicturesRefused(t *testing.T) {
	m := seeing(t, Options{Threads: 1})
	one := still(t, m, 64, 64, 1)
	ids := promptOf(t, m, []*Picture{one})
	run := func(m *Model, ids []int32, pictures ...*Picture) error {
		_, err := m.Generate(context.Background(), Request{Tokens: ids, Pictures: pictures, MaxTokens: 1}, nil)
		return err
	}
	text := testmodel.Tokens("text")
	for name, c := range map[string]struct {
		err  error
		want error
		say  string
	}{
		"no picture":       {run(m, ids), ErrPicture, "token"},
		"no place":         {run(m, text, one), ErrPicture, "without a place"},
		"two for one":      {run(m, ids, one, one), ErrPicture, "without a place"},
		"places cut short": {run(m, slices.Concat(ids[:12], ids[13:]), one), ErrPicture, "places for a picture"},
	} {
		if !errors.Is(c.err, c.want) || !strings.Contains(c.err.Error(), c.say) {
			t.Errorf("%s: error %v, want %v with %q", name, c.err, c.want, c.say)
		}
	}
	for name, file := range map[string][]byte{
		"empty": {}, "text": []byte("not a picture at all"), "1 x 1": noisePNG(t, 1, 1, 1), "elongated": noisePNG(t, 2000, 4, 1),
		"truncated": noisePNG(t, 64, 64, 1)[:200],
	} {
		if _, err := m.Picture(context.Background(), bytes.NewReader(file)); !errors.Is(err, ErrPicture) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want ErrPicture on a line", name, err)
		}
	}
	if _, err := m.Place("<|image_pad|><|image_pad|>", []*Picture{one}); !errors.Is(err, ErrPicture) {
		t.Errorf("two marks for a picture: error %v", err)
	}
	blind := load(t, testmodel.Write(t, testmodel.Config{}), Options{Threads: 1})
	if _, err := blind.Picture(context.Background(), bytes.NewReader(noisePNG(t, 64, 64, 1))); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a model without a tower: error %v, want ErrUnsupported", err)
	}
	if blind.Info().Sight != nil {
		t.Error("a model without a tower says that it takes pictures")
	}
}

// A cancelled picture leaves the model as it was.
func TestPictureCancelled(t *testing.T) {
	m := seeing(t, Options{Threads: 1})
	ids, pictures := sceneOf(t, m)
	want := generate(t, m, ids, pictures)
	fresh := seeing(t, Options{Threads: 1})
	ctx, cancel := context.WithCancel(context.Background())
	begin := fresh.sight.begin
	fresh.sight.begin = func(p *vision.Patches, pool *kernels.Pool) (*vision.Encoding, error) {
		cancel()
		givenUp(fresh)
		return begin(p, pool)
	}
	res, err := fresh.Generate(ctx, Request{Tokens: ids, Pictures: pictures, MaxTokens: 8, IgnoreEOS: true, Raw: true}, nil)
	if err != nil || res.Finish != FinishCancel || len(res.Tokens) != 0 {
		t.Fatalf("result %+v, error %v; want a cancelled one", res, err)
	}
	fresh.sight.begin = begin
	if got := generate(t, fresh, ids, pictures); !slices.Equal(got.Tokens, want.Tokens) {
		t.Errorf("tokens %v after a cancelled picture, want %v", got.Tokens, want.Tokens)
	}
}

// Requests with pictures and without, computed beside each other, get what they get
// alone.
func TestPicturesBesideOthers(t *testing.T) {
	alone := seeing(t, Options{Threads: 1, Sequences: 1})
	ids, pictures := sceneOf(t, alone)
	one := still(t, alone, 64, 64, 5)
	type job struct {
		ids      []int32
		pictures []*Picture
	}
	jobs := []job{
		{ids, pictures}, {testmodel.Tokens("Only text here, of some length, and nothing to see."), nil},
		{promptOf(t, alone, []*Picture{one}), []*Picture{one}}, {ids, pictures},
	}
	var want [][]int32
	for _, j := range jobs {
		want = append(want, generate(t, alone, j.ids, j.pictures).Tokens)
	}
	m := seeing(t, Options{Threads: 2, Sequences: 4, Chunk: 24})
	got := make([][]int32, len(jobs))
	errs := make([]error, len(jobs))
	var ended sync.WaitGroup
	for i, j := range jobs {
		ended.Go(func() {
			res, err := m.Generate(context.Background(), Request{Tokens: j.ids, Pictures: j.pictures, MaxTokens: 8, IgnoreEOS: true, Raw: true}, nil)
			if errs[i] = err; err == nil {
				got[i] = res.Tokens
			}
		})
	}
	ended.Wait()
	for i := range jobs {
		if errs[i] != nil || !slices.Equal(got[i], want[i]) {
			t.Errorf("request %d: tokens %v, %v; alone %v", i, got[i], errs[i], want[i])
		}
	}
}

// The bits of a prompt with pictures, the same on every machine.
func TestPictureDigest(t *testing.T) {
	const want uint64 = 0x8be8372c8e469dad
	m := seeing(t, Options{Threads: 1})
	pictures := []*Picture{gradient(t, m, 96, 64), gradient(t, m, 40, 100)}
	h := fnv.New64a()
	if err := binary.Write(h, binary.LittleEndian, seenLogits(t, m, promptOf(t, m, pictures), pictures, 0)); err != nil {
		t.Fatal(err)
	}
	if got := h.Sum64(); got != want {
		t.Errorf("digest %#x, want %#x", got, want)
	}
}

// gradient is a picture of numbers alone.
func gradient(t *testing.T, m *Model, w, h int) *Picture {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			img.SetRGBA(x, y, color.RGBA{uint8(3 * x), uint8(5 * y), uint8(x * y), 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	p, err := m.Picture(context.Background(), &b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
