// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tiny is the golden model's configuration (preprocessor_config.json).
var tiny = Config{Patch: 16, Merge: 2, Temporal: 2, Image: Pixels{4096, 65536}, Video: Pixels{4096, 65536}}

const goldenDir = "testdata/qwen3vl-tiny"

// goldens is golden/prompts.json.
type goldens struct {
	Images map[string]struct {
		Size    [2]int `json:"size_wh"`
		Resized [2]int `json:"resized_wh"`
		Grid    [3]int `json:"grid_thw"`
	} `json:"images"`
	Prompts map[string]struct {
		Images   []string   `json:"images"`
		Frames   []string   `json:"frames"`
		FPS      float64    `json:"fps"`
		IDs      []int32    `json:"ids"`
		Grid     [][3]int   `json:"grid_thw"`
		Position [3][]int32 `json:"position_ids"`
		Delta    int32      `json:"rope_delta"`
		Text     string     `json:"expanded_text"`
	} `json:"prompts"`
	PixelValues map[string]string `json:"pixel_values"`
}

func readGoldens(t testing.TB) *goldens {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(goldenDir, "golden", "prompts.json"))
	if err != nil {
		t.Fatal(err)
	}
	g := &goldens{}
	if err := json.Unmarshal(data, g); err != nil {
		t.Fatal(err)
	}
	return g
}

// readNPY reads an array of '<f4' or '|u1'.
func readNPY(t testing.TB, path string) (shape []int, data []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := int(binary.LittleEndian.Uint16(b[8:]))
	head := string(b[10:][:n])
	_, list, ok := strings.Cut(head, "'shape': (")
	if !ok {
		t.Fatalf("%s: header %q", path, head)
	}
	list, _, _ = strings.Cut(list, ")")
	for _, f := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		var v int
		if _, err := fmt.Sscan(f, &v); err != nil {
			t.Fatalf("%s: header %q", path, head)
		}
		shape = append(shape, v)
	}
	return shape, b[10+n:]
}

// decodeFile decodes a golden picture.
func decodeFile(t testing.TB, path string) *Image {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Decode(context.Background(), bytes.NewReader(data), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func decodeGolden(t testing.TB, name string) *Image {
	return decodeFile(t, filepath.Join(goldenDir, "images", name+".png"))
}

// shared is where the large set of goldens is, "" without it.
func shared() string {
	dir := filepath.FromSlash("../../../shared/golden/models/qwen3vl-tiny")
	if _, err := os.Stat(dir); err != nil {
		return ""
	}
	return dir
}

// Resized pictures are those of the reference, byte for byte.
func TestResizedLikeReference(t *testing.T) {
	g := readGoldens(t)
	done := 0
	for name, want := range g.Images {
		dir := goldenDir
		if name == "big" { // too large for testdata
			if dir = shared(); dir == "" {
				continue
			}
		}
		m := decodeFile(t, filepath.Join(dir, "images", name+".png"))
		if got := [2]int{m.Width, m.Height}; got != want.Size {
			t.Errorf("%s: %v pixels, want %v", name, got, want.Size)
		}
		p, err := tiny.Still(m)
		if err != nil {
			t.Fatal(err)
		}
		if p.Grid != (Grid{want.Grid[0], want.Grid[1], want.Grid[2]}) {
			t.Errorf("%s: grid %v, want %v", name, p.Grid, want.Grid)
		}
		shape, pix := readNPY(t, filepath.Join(dir, "golden", "resized_"+name+".npy"))
		if shape[0] != want.Resized[1] || shape[1] != want.Resized[0] {
			t.Fatalf("%s: golden of %v, want %v", name, shape, want.Resized)
		}
		got := &Image{want.Resized[0], want.Resized[1], p.pix[0]}
		most, mean := difference(t, got, &Image{want.Resized[0], want.Resized[1], pix})
		t.Logf("%s: largest difference %d, mean %.5f", name, most, mean)
		if most > 0 {
			t.Errorf("%s: largest difference %d, mean %.5f, want none", name, most, mean)
		}
		done++
	}
	if done < 7 {
		t.Errorf("%d pictures, want 7 or 8", done)
	}
}

// values are the vectors of all patches.
func (p *Patches) values() []float32 {
	n := p.Grid.H * p.Grid.W
	x := make([]float32, p.Grid.T*n*p.Len())
	for i := range p.Grid.T * n {
		p.Patch(x[i*p.Len():][:p.Len()], i/n, i%n)
	}
	return x
}

func videoFrames(t testing.TB) []*Image {
	var frames []*Image
	for i := range 5 {
		frames = append(frames, decodeGolden(t, fmt.Sprintf("frame%d", i)))
	}
	return frames
}

// framesOf is a video of frames that are there.
func framesOf(c *Config, frames []*Image) (*Patches, error) {
	film := c.Film(len(frames))
	for _, m := range frames {
		if _, err := film.Add(m); err != nil {
			return nil, err
		}
	}
	return film.Patches()
}

// Pixel values and their order are the reference's, bit for bit.
func TestPatchesLikeReference(t *testing.T) {
	g := readGoldens(t)
	a, err := tiny.Still(decodeGolden(t, "a"))
	if err != nil {
		t.Fatal(err)
	}
	video, err := framesOf(&tiny, videoFrames(t))
	if err != nil {
		t.Fatal(err)
	}
	if video.Grid != (Grid{3, 4, 4}) || video.Places() != 12 || a.Places() != 6 {
		t.Errorf("grid %v, %d places, %d for a picture; want {3 4 4}, 12, 6", video.Grid, video.Places(), a.Places())
	}
	for name, p := range map[string]*Patches{"a": a, "video": video} {
		h := sha256.New()
		if err := binary.Write(h, binary.LittleEndian, p.values()); err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != g.PixelValues[name] {
			t.Errorf("%s: pixel values are others than the golden ones", name)
		}
	}
	if a.Key() == video.Key() {
		t.Error("two pictures have the same key")
	}
	again, err := tiny.Still(decodeGolden(t, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if a.Key() != again.Key() {
		t.Error("a picture has two keys")
	}
}

func TestPositionsLikeReference(t *testing.T) {
	g := readGoldens(t)
	places := PlaceIDs{Image: 578, Video: 579}
	for name, p := range g.Prompts {
		var images, videos []Grid
		for _, v := range p.Grid {
			grid := Grid{v[0], v[1], v[2]}
			if p.FPS > 0 {
				videos = append(videos, grid)
			} else {
				images = append(images, grid)
			}
		}
		var got [3][]int32
		for i := range got {
			got[i] = make([]int32, len(p.IDs))
		}
		delta, err := Positions(&got, p.IDs, places, 2, images, videos)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for axis := range got {
			if !slices.Equal(got[axis], p.Position[axis]) {
				t.Errorf("%s: axis %d: %v, want %v", name, axis, got[axis], p.Position[axis])
			}
		}
		if delta != p.Delta {
			t.Errorf("%s: delta %d, want %d", name, delta, p.Delta)
		}
	}
	if len(g.Prompts) != 3 {
		t.Errorf("%d prompts, want 3", len(g.Prompts))
	}
}

// The times of the golden video are in its prompt.
func TestTimesLikeReference(t *testing.T) {
	p := readGoldens(t).Prompts["video"]
	indices, err := SampleFrames(len(p.Frames), p.FPS)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(indices, []int{0, 1, 2, 3, 4}) {
		t.Errorf("frames %v, want all 5", indices)
	}
	var got []string
	for _, s := range tiny.Times(indices, p.FPS) {
		got = append(got, TimeText(s)+"<|vision_start|>"+strings.Repeat("<|video_pad|>", 4)+"<|vision_end|>")
	}
	if !strings.Contains(p.Text, strings.Join(got, "")) || len(got) != 3 {
		t.Errorf("%q is not in %q", strings.Join(got, ""), p.Text)
	}
}
