// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"windhover/engine/vision"
	"windhover/internal/testmodel"
	"windhover/kernels"
	"windhover/vqf"
)

// An encrypted file's tower is deciphered when it is loaded, and gives the same bits.
func TestPicturesOfEncryptedModel(t *testing.T) {
	plain := testmodel.Write(t, testmodel.Config{Vision: true, Random: true, Q8: 2, MaxSeq: 512})
	secret := sealed(t, plain, "open sesame")
	want := load(t, plain, Options{Threads: 1})
	ids, pictures := sceneOf(t, want)
	logits := seenLogits(t, want, ids, pictures, 0)
	for _, residency := range []string{ResidencyFull, ResidencyLayered} {
		m := load(t, secret, Options{Threads: 2, Residency: residency, VQF: vqf.OpenOptions{Key: testKey(t, "open sesame")}})
		ids, pictures := sceneOf(t, m)
		if got := seenLogits(t, m, ids, pictures, 0); !slices.Equal(got, logits) {
			t.Errorf("%s: logits differ from those of the plain file", residency)
		}
		need, tower := m.Info().Need, int64(len(m.sight.mem))
		if tower == 0 || need.Private < tower {
			t.Errorf("%s: %d bytes of the tower, %d counted as private", residency, tower, need.Private)
		}
	}
}

// A memory limit makes pictures smaller before the context shorter, and what is said
// of them is what is taken.
func TestPicturesWithinMemory(t *testing.T) {
	path := testmodel.Write(t, testmodel.Config{Vision: true, Random: true, Q8: 2, MaxSeq: 512})
	wide := load(t, path, Options{Threads: 1}).Info()
	if wide.Sight.MaxPixels != testmodel.MaxPixels || wide.Sight.FilePixels != mostFile {
		t.Errorf("without a limit: %+v", wide.Sight)
	}
	limit := wide.Need.Total() / 2
	m := load(t, path, Options{Threads: 1, MemoryLimit: limit})
	s := m.Info().Sight
	if m.Info().Need.Total() > limit || s.FilePixels >= wide.Sight.FilePixels || s.MaxPixels >= wide.Sight.MaxPixels || m.Info().Context != wide.Context {
		t.Errorf("limit %d: need %d, context %d, %+v", limit, m.Info().Need.Total(), m.Info().Context, s)
	}
	large := noisePNG(t, 8, 8, 1) // with another size in its header
	binary.BigEndian.PutUint32(large[16:], 4096)
	binary.BigEndian.PutUint32(large[20:], uint32(s.FilePixels/4096+1))
	binary.BigEndian.PutUint32(large[29:], crc32.ChecksumIEEE(large[12:29]))
	if _, err := m.Picture(context.Background(), bytes.NewReader(large)); !errors.Is(err, ErrPicture) || !strings.Contains(err.Error(), fmt.Sprint(s.FilePixels)) {
		t.Errorf("a picture of more than %d pixels: error %v, want ErrPicture that says so", s.FilePixels, err)
	}
	if p := still(t, m, 256, 256, 1); int64(p.Places())*testmodel.PlaceSide*testmodel.PlaceSide > s.MaxPixels {
		t.Errorf("%d places, at most %d pixels", p.Places(), s.MaxPixels)
	}
	_, err := Load(path, Options{Threads: 1, MemoryLimit: 1 << 20})
	var memory *MemoryError
	if !errors.As(err, &memory) {
		t.Errorf("a limit of 1 MiB: error %v, want a MemoryError", err)
	}
}

// While the tower computes for one request, another is answered: in between its
// steps, and with the tokens it gets alone.
func TestAnswersGoOnBesidePictures(t *testing.T) {
	m := seeing(t, Options{Threads: 1, Sequences: 2})
	req := Request{Tokens: testmodel.Tokens("Say something."), MaxTokens: 16, IgnoreEOS: true, Raw: true}
	want, err := m.Generate(context.Background(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	pictures := []*Picture{film(t, m, 24, 48, 48, 2)}
	ids := promptOf(t, m, pictures)
	var other *generation
	begin := m.sight.begin
	m.sight.begin = func(p *vision.Patches, pool *kernels.Pool) (*vision.Encoding, error) {
		var err error
		if other, err = m.newGeneration(req); err == nil {
			err = m.sched.enter(other)
		}
		if err != nil {
			t.Error(err)
		}
		return begin(p, pool)
	}
	between := 0 // passes that began while a picture was under way
	m.st.trace = func(layer int, _ []float32) {
		if layer == 0 && m.sight.at != nil {
			between++
		}
	}
	if res := generate(t, m, ids, pictures); len(res.Tokens) == 0 {
		t.Error("no answer about the video")
	}
	got, err := other.follow(context.Background(), nil)
	if err != nil || !slices.Equal(got.Tokens, want.Tokens) {
		t.Errorf("tokens %v, %v; alone %v", got, err, want.Tokens)
	}
	if between < req.MaxTokens {
		t.Errorf("%d passes beside the picture, want the whole other answer of %d", between, req.MaxTokens)
	}
}

// What a request has read of its pictures is let go, a cancelled one's picture too.
func TestPicturesAreLetGo(t *testing.T) {
	m := seeing(t, Options{Threads: 1, Chunk: 16})
	ids, pictures := sceneOf(t, m)
	c, err := m.compose(ids, pictures)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pictures {
		c.made[p] = new(vision.Embedding)
	}
	for _, r := range c.runs {
		c.read(r.at + r.n - 1)
		if c.made[r.picture] == nil {
			t.Errorf("a picture is gone before its last place, at %d", r.at)
		}
		c.read(r.at + r.n)
	}
	if len(c.made) != 0 {
		t.Errorf("%d pictures are still there", len(c.made))
	}
}

// In layered residency the tower's weights are dropped behind each step, and admission
// counts a step's.
func TestPicturesLayered(t *testing.T) {
	path := testmodel.Write(t, testmodel.Config{Vision: true, Random: true, Q8: 2, MaxSeq: 512})
	full, layered := load(t, path, Options{Threads: 1}), load(t, path, Options{Threads: 1, Residency: ResidencyLayered})
	ids, pictures := sceneOf(t, full)
	if !slices.Equal(seenLogits(t, full, ids, pictures, 0), seenLogits(t, layered, ids, pictures, 0)) {
		t.Error("logits differ by residency")
	}
	tower, least := vision.WeightBytes(layered.file), vision.StepBytes(layered.file)
	if n := layered.Info().Need; n.Weights > full.Info().Need.Weights-(tower-least)/2 { // slots are whole pages
		t.Errorf("weights of %d bytes, %d in full; the tower has %d, a step %d", n.Weights, full.Info().Need.Weights, tower, least)
	}
}
