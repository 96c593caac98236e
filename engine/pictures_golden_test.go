// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windhover/vqf/convert"
)

// What the goldens say of pictures: README.md there. Noise of int8 activations in
// tower and text together.
const (
	pictureMeanKL = 0.03
	pictureMargin = 1.0
)

// seenPrompt is a golden prompt with pictures.
type seenPrompt struct {
	Images   []string `json:"images"` // names of pictures
	Frames   []string `json:"frames"` // paths of a video's
	FPS      float64  `json:"fps"`
	Text     string   `json:"text_before_expansion"`
	IDs      []int32  `json:"ids"`
	Variants map[string]struct {
		Logits struct {
			File string `json:"file"`
		} `json:"logits"`
		Greedy struct {
			IDs     []int32   `json:"ids"`
			Margins []float32 `json:"margins"`
		} `json:"greedy"`
	} `json:"variants"`
	Hidden map[string]json.RawMessage `json:"hidden"`
}

// seeingModel converts the golden model, whose large set must be here.
func seeingModel(t testing.TB, mode string, opt Options) (*Model, string, map[string]*seenPrompt) {
	t.Helper()
	dir := shared("models", "qwen3vl-tiny")
	if dir == "" {
		t.Skip("the large set of goldens is not here")
	}
	path := filepath.Join(t.TempDir(), "vl.vqf")
	if _, err := convert.Run(context.Background(), dir, path, convert.Options{Mode: mode, Threads: 1}, nil); err != nil {
		t.Fatal(err)
	}
	var g struct {
		Vision struct {
			Prompts map[string]*seenPrompt `json:"prompts"`
		} `json:"vision"`
	}
	unmarshal(t, readFile(t, filepath.Join(dir, "golden", "golden.json")), &g)
	if opt.Context == 0 {
		opt.Context = 512
	}
	return load(t, path, opt), dir, g.Vision.Prompts
}

// pictures reads those of a prompt.
func (p *seenPrompt) pictures(t testing.TB, m *Model, dir string) []*Picture {
	t.Helper()
	var list []*Picture
	for _, name := range p.Images {
		pic, err := m.Picture(context.Background(), strings.NewReader(string(readFile(t, filepath.Join(dir, "images", name+".png")))))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, pic)
	}
	if len(p.Frames) > 0 {
		pic, err := m.Video(context.Background(), len(p.Frames), p.FPS, func(i int) (io.ReadCloser, error) { return os.Open(filepath.Join(dir, p.Frames[i])) })
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, pic)
	}
	return list
}

// seenLogits are the logits of a prompt with pictures.
func seenLogits(t testing.TB, m *Model, ids []int32, pictures []*Picture, chunk int) []float32 {
	t.Helper()
	var all []float32
	err := m.Logits(context.Background(), ids, chunk, func(_ int, logits []float32) error {
		all = append(all, logits...)
		return nil
	}, pictures...)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestPicturesMatchGolden(t *testing.T) {
	for _, mode := range []string{"q8", "q4"} {
		variant := "vqf_" + mode
		for _, act := range activations() {
			t.Run(mode+"/"+act, func(t *testing.T) {
				m, dir, prompts := seeingModel(t, mode, Options{Activations: act})
				for _, name := range []string{"one_image", "two_images", "video"} {
					p := prompts[name]
					pictures := p.pictures(t, m, dir)
					want := readNPY(t, filepath.Join(dir, "golden", p.Variants[variant].Logits.File))
					got := seenLogits(t, m, p.IDs, pictures, 0)
					if len(got) != len(want) {
						t.Fatalf("%s: %d logits, want %d", name, len(got), len(want))
					}
					if act == "f32" {
						checkRange(t, name, got, want)
					} else {
						checkNoise(t, name, got, want, m.cfg.Vocab)
					}
					checkSeenGreedy(t, m, p, name, variant, act, pictures)
				}
			})
		}
	}
}

func checkRange(t *testing.T, name string, got, want []float32) {
	t.Helper()
	worst, lo, hi := 0.0, math.Inf(1), math.Inf(-1)
	for i, w := range want {
		worst = max(worst, math.Abs(float64(got[i])-float64(w)))
		lo, hi = min(lo, float64(w)), max(hi, float64(w))
	}
	t.Logf("%s: worst difference %.2e of the range %.1f", name, worst/(hi-lo), hi-lo)
	if !(worst <= refOfRange*(hi-lo)) {
		t.Errorf("%s: worst difference %.2e of the range, want at most %.0e", name, worst/(hi-lo), refOfRange)
	}
}

func checkNoise(t *testing.T, name string, got, want []float32, vocab int) {
	t.Helper()
	var d deviation
	for i := 0; i < len(want); i += vocab {
		d.row(got[i:][:vocab], want[i:][:vocab])
	}
	rms, kl := math.Sqrt(d.err2/d.want2), d.kl/float64(d.rows)
	t.Logf("%s: relative RMS %.4f, mean KL %.5f, argmax lost %d of %d, at margins up to %.3f", name, rms, kl, d.flips, d.rows, d.flipMargin)
	if !(rms <= int8RelRMS) || !(kl <= pictureMeanKL) || d.flipMargin > pictureMargin {
		t.Errorf("%s: relative RMS %.4f, mean KL %.5f, argmax lost at %.3f; want at most %v, %v, %v", name, rms, kl, d.flipMargin, int8RelRMS, pictureMeanKL, pictureMargin)
	}
}

// checkSeenGreedy compares up to the first token of a margin that noise may cross.
func checkSeenGreedy(t *testing.T, m *Model, p *seenPrompt, name, variant, act string, pictures []*Picture) {
	t.Helper()
	v := p.Variants[variant].Greedy
	got, margins, err := m.Greedy(context.Background(), p.IDs, len(v.IDs), pictures...)
	if err != nil {
		t.Fatal(err)
	}
	limit := float32(pictureMargin)
	if act == "f32" {
		limit = 0.02
	}
	for i, id := range v.IDs {
		if v.Margins[i] < limit {
			break
		}
		if got[i] != id {
			t.Errorf("%s: token %d is %d (margin %.3f), want %d (margin %.3f)", name, i, got[i], margins[i], id, v.Margins[i])
			break
		}
	}
}

// The hidden states show which DeepStack level goes where.
func TestPictureHiddenStatesMatchGolden(t *testing.T) {
	for _, act := range activations() {
		t.Run(act, func(t *testing.T) {
			m, dir, prompts := seeingModel(t, "q8", Options{Activations: act})
			p := prompts["one_image"]
			var file struct {
				File string `json:"file"`
			}
			unmarshal(t, p.Hidden["vqf_q8"], &file)
			want := readNPY(t, filepath.Join(dir, "golden", file.File))
			limit := hiddenRelRMS
			if act == "f32" {
				limit = 1e-3
			}
			seen := 0 // values
			m.st.trace = func(layer int, x []float32) {
				w := want[seen:][:len(x)] // layer by layer; behind the final norm in pieces
				if rms := relativeRMS(x, w); !(rms <= limit) {
					t.Errorf("entry %d: relative RMS %.4f, want at most %v", layer, rms, limit)
				}
				seen += len(x)
			}
			seenLogits(t, m, p.IDs, p.pictures(t, m, dir), 0)
			if seen != len(want) {
				t.Errorf("%d values seen, want %d", seen, len(want))
			}
		})
	}
}

// What the chat template leaves of a picture becomes the reference's tokens.
func TestPlaceMatchesGolden(t *testing.T) {
	m, dir, prompts := seeingModel(t, "q8", Options{})
	for name, p := range prompts {
		text := p.Text
		if name == "video" {
			text = strings.Replace(text, "<|video_pad|>", "<|vision_start|><|video_pad|><|vision_end|>", 1)
		}
		placed, err := m.Place(text, p.pictures(t, m, dir))
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Tokenizer().Encode(placed, true); fmt.Sprint(got) != fmt.Sprint(p.IDs) {
			t.Errorf("%s: tokens %v, want %v", name, got, p.IDs)
		}
	}
}
