// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"windhover/control"
	"windhover/internal/testmodel"
)

// seeingModel is a model file with a vision tower.
func seeingModel(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile(testmodel.Write(t, testmodel.Config{Vision: true, Q8: 2, MaxSeq: 512}))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// picture is a PNG file with a gradient.
func picture(t *testing.T, w, h int) []byte {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			img.SetRGBA(x, y, color.RGBA{uint8(x), uint8(y), uint8(x + y), 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// bomb is a PNG file whose header says that it has w x h pixels.
func bomb(t *testing.T, w, h uint32) []byte {
	t.Helper()
	data := picture(t, 8, 8)
	binary.BigEndian.PutUint32(data[16:], w)
	binary.BigEndian.PutUint32(data[20:], h)
	binary.BigEndian.PutUint32(data[29:], crc32.ChecksumIEEE(data[12:29]))
	return data
}

func asking(parts ...control.Part) *control.Request {
	zero := float32(0)
	r := control.NewRequest(control.OpChat)
	r.Messages = []control.Message{{Role: "user", Content: control.Content{Parts: append(parts, control.Part{Type: "text", Text: "Who are you?"})}}}
	r.MaxTokens, r.Temperature = 32, &zero
	return r
}

func inline(data []byte) control.Part {
	return control.Part{Type: "image", Picture: control.Picture{Data: data}}
}

func named(file string) control.Part {
	return control.Part{Type: "image", Picture: control.Picture{File: file}}
}

// Pictures in a request and by name, videos, and what is refused, over MQTT.
func TestPicturesOverMQTT_P120(t *testing.T) {
	b := startBox(t, nil)
	b.drop(t, "blind.vqf", tinyModel(t, nil))
	b.ready(t, "blind")
	b.drop(t, "vl.vqf", seeingModel(t))
	b.ready(t, "vl")
	imports := b.cfg.Paths.imports()
	outside := filepath.Join(t.TempDir(), "outside.png")
	writeBytes(t, outside, picture(t, 64, 64))
	writeBytes(t, filepath.Join(imports, "gate.png"), picture(t, 64, 48))
	writeBytes(t, filepath.Join(imports, "big.png"), bytes.Repeat([]byte("x"), 33<<20))
	writeBytes(t, filepath.Join(imports, "secret.txt"), []byte("not for you"))
	if err := os.Symlink(outside, filepath.Join(imports, "link.png")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(imports, "pipe.png"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(imports, "dir.png"), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitFor)
	defer cancel()
	c := b.client(t, "you")
	ask := func(parts ...control.Part) (*control.Answer, error) { return c.Send(ctx, asking(parts...), nil) }

	frames := control.Part{Type: "video", FPS: 2}
	for range 4 {
		frames.Frames = append(frames.Frames, control.Picture{File: "gate.png"})
	}
	for name, tt := range map[string]struct {
		parts    []control.Part
		pictures int
	}{
		"inline":  {[]control.Part{inline(picture(t, 96, 64))}, 1},
		"by name": {[]control.Part{named("gate.png")}, 1},
		"both":    {[]control.Part{named("gate.png"), inline(picture(t, 40, 80))}, 2},
		"video":   {[]control.Part{frames}, 1},
	} {
		a, err := ask(tt.parts...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if a.Text != testmodel.Answer || a.Done.Usage.Pictures != tt.pictures {
			t.Errorf("%s: answer %q, usage %+v; want %q about %d pictures", name, a.Text, *a.Done.Usage, testmodel.Answer, tt.pictures)
		}
	}
	if a, err := ask(named("gate.png")); err != nil || a.Done.Usage.PicturesKnown != 1 {
		t.Errorf("the same picture again: %+v, %v; want it known", a, err)
	}

	for name, tt := range map[string]struct {
		part control.Part
		say  string
	}{
		"bomb":           {inline(bomb(t, 100000, 100000)), "100000 x 100000 pixels"},
		"truncated":      {inline(picture(t, 64, 64)[:120]), "content[0]"},
		"1 x 1":          {inline(picture(t, 1, 1)), "1 x 1 pixels"},
		"elongated":      {inline(bomb(t, 20000, 3)), "20000 x 3 pixels"},
		"no picture":     {named("secret.txt"), "none of PNG"},
		"too many bytes": {named("big.png"), "more than"},
		"not there":      {named("nothing.png"), "is not in import/"},
		"link":           {named("link.png"), "no regular file"},
		"pipe":           {named("pipe.png"), "no regular file"},
		"directory":      {named("dir.png"), "no regular file"},
		"one frame":      {control.Part{Type: "video", Frames: frames.Frames[:1]}, "1 frames"},
	} {
		_, err := ask(tt.part)
		if !errors.Is(err, control.BadRequest) || !strings.Contains(err.Error(), "messages[0].content[0]: ") || !strings.Contains(err.Error(), tt.say) {
			t.Errorf("%s: error %v, want bad_request with %q", name, err, tt.say)
		}
	}
	// What no client of ours would send.
	for _, file := range []string{"../outside.png", outside, "..", ".hidden", "a/b.png"} {
		if _, err := ask(named(file)); !errors.Is(err, control.BadRequest) {
			t.Errorf("file %q: error %v, want bad_request", file, err)
		}
	}
	long := frames
	long.Frames = nil
	for range 300 {
		long.Frames = append(long.Frames, control.Picture{File: "gate.png"})
	}
	if _, err := ask(long); !errors.Is(err, control.ContextOverflow) {
		t.Errorf("a video of 300 frames: error %v, want context_overflow", err)
	}
	r := asking(named("gate.png"))
	r.Model = "blind"
	if _, err := c.Send(ctx, r, nil); !errors.Is(err, control.Unsupported) || !strings.Contains(err.Error(), "no vision tower") {
		t.Errorf("a model without a tower: error %v, want unsupported", err)
	}
	if a, err := ask(); err != nil || a.Text != testmodel.Answer {
		t.Errorf("afterwards: %+v, %v", a, err)
	}
	for _, m := range b.models(t) {
		if (m.Pictures != nil) != (m.Name == "vl") {
			t.Errorf("document of %s: pictures %+v", m.Name, m.Pictures)
		}
	}
}

// models are the documents of the appliance.
func (b *box) models(t *testing.T) []control.Model {
	t.Helper()
	doc, err := LocalStatus(context.Background(), b.cfg)
	if err != nil {
		t.Fatal(err)
	}
	return doc.Models
}

// serveSeeing is a model with a tower that serves until the test ends.
func serveSeeing(t *testing.T) *serving {
	t.Helper()
	r := newRig(t, t.TempDir())
	r.put(t, "vl.vqf", seeingModel(t))
	r.scan(context.Background())
	s, release, err := r.reg.acquire(context.Background(), "vl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return s
}

// A conversation that is too long loses its oldest messages with their pictures.
func TestTruncateDropsPictures(t *testing.T) {
	s := serveSeeing(t)
	req := asking(inline(picture(t, 64, 64)))
	one := req.Messages[0]
	for range 5 {
		req.Messages = append([]control.Message{one, {Role: "assistant", Content: control.Content{Text: strings.Repeat("a", 100)}}}, req.Messages...)
	}
	if _, pictures, err := promptTokens(context.Background(), s, req, ""); err != nil || len(pictures) != 6 {
		t.Fatalf("%d pictures, %v; want 6", len(pictures), err)
	}
	req.Truncate = "oldest"
	tokens, pictures, err := promptTokens(context.Background(), s, req, "")
	if err != nil || len(tokens)+req.MaxTokens > s.Info().Context || len(pictures) == 0 || len(pictures) == 6 {
		t.Fatalf("%d tokens and %d pictures, %v; want some that fit %d", len(tokens), len(pictures), err, s.Info().Context)
	}
	er := engineRequest(s, req, tokens)
	er.Pictures = pictures
	if _, err := s.Generate(context.Background(), er, nil); err != nil {
		t.Error(err)
	}
}

// Pictures of a request that nobody waits for are not read.
func TestPicturesOfCancelledRequest(t *testing.T) {
	s := serveSeeing(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := promptTokens(ctx, s, asking(inline(picture(t, 64, 64))), ""); !errors.Is(err, control.Canceled) {
		t.Errorf("error %v, want canceled", err)
	}
}

// The memory of pictures is that of all requests together. Those for whose there is
// none are told to come again, and what is answered has let go of its own.
func TestPicturesFillTheirMemory_P216(t *testing.T) {
	s := serveSeeing(t)
	six := func() *control.Request {
		var parts []control.Part
		for range 6 {
			parts = append(parts, inline(picture(t, 128, 128)))
		}
		return asking(parts...)
	}
	ctx, answered := context.WithCancel(context.Background())
	defer answered()
	waiting := 0
	var err error
	for ; err == nil && waiting < 1000; waiting++ {
		request, end := context.WithCancel(ctx)
		defer end()
		_, _, err = promptTokens(request, s, six(), "")
	}
	var full *control.Error
	if !errors.As(err, &full) || full.Code != control.QueueFull || full.RetryAfter <= 0 || !strings.Contains(full.Message, "messages[0].content[") {
		t.Fatalf("request %d: error %v, want queue_full that says where and when to come again", waiting, err)
	}
	// A request whose own are too much never has room, and says so.
	request, end := context.WithCancel(context.Background())
	defer end()
	alone := serveSeeing(t)
	for err = nil; err == nil; {
		_, _, err = promptTokens(request, alone, six(), "")
	}
	if !errors.As(err, &full) || full.Code != control.PayloadTooLarge || full.RetryAfter != 0 || !strings.Contains(full.Message, "messages[0].content[") ||
		!strings.Contains(full.Message, "send fewer") {
		t.Errorf("a request that is too much by itself: error %v, want payload_too_large", err)
	}
	b := startBox(t, nil)
	b.drop(t, "vl.vqf", seeingModel(t))
	b.ready(t, "vl")
	sending, cancel := context.WithTimeout(context.Background(), waitFor)
	defer cancel()
	c := b.client(t, "you")
	for i := range waiting + 1 {
		r := six()
		r.MaxTokens = 1
		if _, err := c.Send(sending, r, nil); err != nil {
			t.Fatalf("request %d, one after the other: %v", i, err)
		}
	}
}
