// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"

	"windhover/engine/vision"
)

// Picture is a picture, or the frames of a video, as a model takes it: resized,
// and not computed with yet. It may be used by any number of requests, of the
// model that made it.
type Picture struct {
	patches *vision.Patches
	times   []float64 // seconds, of the tower's frames; nil for a still
	key     [sha256.Size]byte
}

// Places is how many tokens of a prompt it fills.
func (p *Picture) Places() int { return p.patches.Places() }

// Video reports whether it is one: its places are those of videos.
func (p *Picture) Video() bool { return p.times != nil }

// Sight is what a model takes of pictures.
type Sight struct {
	// A picture is resized, near to its own shape, to a number of pixels between
	// these. MaxPixels is less than the model's own limit where memory or
	// context ask for it.
	MinPixels, MaxPixels int64
	// VideoPixels bounds those of all frames of a video together.
	VideoPixels int64
	PlaceSide   int   // a token stands for so many pixels a side
	FileBytes   int64 // of a picture's file, at most
	FilePixels  int64 // of a picture before it is resized, at most
}

// Picture reads a PNG, JPEG, GIF (its first frame), WebP or BMP file. Size and
// shape are held to the limits of [Sight] before memory is spent, and one picture
// is decoded at a time. The end of ctx ends the wait for others and the decoding, and
// what the picture takes counts as memory until then: give that of the request. Errors: [ErrPicture],
// [*PicturesError], [ErrPicturesFull], [ErrUnsupported] for a model without a vision tower, the reader's, the context's.
func (m *Model) Picture(ctx context.Context, r io.Reader) (*Picture, error) {
	s, err := m.see()
	if err != nil {
		return nil, err
	}
	var pic *Picture
	err = s.alone(ctx, func() error {
		img, err := vision.Decode(ctx, r, s.limits)
		if err != nil {
			return err
		}
		patches, err := s.cfg.Still(img)
		if err == nil {
			err = s.held.take(ctx, patches.Bytes())
		}
		if err != nil {
			return err
		}
		pic = &Picture{patches: patches, key: patches.Key()}
		return nil
	})
	return pic, pictureError(err)
}

// Video reads frames of a video of n pictures at rate pictures a second: two a
// second, but at least 4 and at most 768 in all, as far as there are so many. open
// gives picture i; others have their pictures decoded between two of them. Errors
// are those of [Model.Picture].
func (m *Model) Video(ctx context.Context, n int, rate float64, open func(i int) (io.ReadCloser, error)) (*Picture, error) {
	s, err := m.see()
	if err != nil {
		return nil, err
	}
	chosen, err := vision.SampleFrames(n, rate)
	if err != nil {
		return nil, pictureError(err)
	}
	film := s.cfg.Film(len(chosen))
	for _, i := range chosen {
		err := s.alone(ctx, func() error {
			img, err := s.frame(ctx, i, open)
			if err != nil {
				return err
			}
			n, err := film.Add(img)
			if err != nil {
				return err
			}
			return s.held.take(ctx, n)
		})
		if err != nil {
			return nil, pictureError(fmt.Errorf("frame %d: %w", i, err))
		}
	}
	patches, err := film.Patches()
	if err != nil {
		return nil, pictureError(err)
	}
	return &Picture{patches: patches, times: s.cfg.Times(chosen, rate), key: patches.Key()}, nil
}

// alone runs do when nobody else decodes.
func (s *sight) alone(ctx context.Context, do func() error) error {
	select {
	case s.decoding <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("engine: picture: %w", ctx.Err())
	}
	defer func() { <-s.decoding }()
	if ctx.Err() != nil {
		return fmt.Errorf("engine: picture: %w", ctx.Err())
	}
	return do()
}

// frame reads picture i of a video.
func (s *sight) frame(ctx context.Context, i int, open func(i int) (io.ReadCloser, error)) (img *vision.Image, err error) {
	r, err := open(i)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return vision.Decode(ctx, r, s.limits)
}

// pictureError marks what is wrong with a picture.
func pictureError(err error) error {
	if errors.Is(err, ErrPicture) || !errors.Is(err, vision.ErrFormat) && !errors.Is(err, vision.ErrSize) {
		return err
	}
	text := strings.TrimPrefix(err.Error(), "vision: ")
	return fmt.Errorf("%w: %s", ErrPicture, strings.TrimSuffix(text, ": "+vision.ErrSize.Error())) // the numbers say it
}

// see is what the model has for pictures, or why it takes none.
func (m *Model) see() (*sight, error) {
	if m.sight == nil {
		return nil, unsupported("%s has no vision tower: it takes text only", m.file.Path())
	}
	return m.sight, nil
}

// Place puts pictures into a rendered prompt. The chat template left one mark for
// each, in order; a still gets as many marks as it has places, and a video for
// each of the tower's frames its time in words and a run of marks. Errors:
// [ErrPicture] where marks and pictures do not match, which a text that spells a
// mark does as well; [ErrUnsupported].
func (m *Model) Place(prompt string, pictures []*Picture) (string, error) {
	if len(pictures) == 0 {
		return prompt, nil // what spells a mark is refused by its token
	}
	s, err := m.see()
	if err != nil {
		return "", err
	}
	if m.tok == nil {
		return "", badRequest("pictures in a text need a tokenizer")
	}
	image, video := m.tok.Token(s.ids.Image), m.tok.Token(s.ids.Video)
	start, end := m.tok.Token(s.start), m.tok.Token(s.end)
	var out strings.Builder
	for i, p := range pictures {
		mark := image
		if p.Video() {
			mark = start + video + end
		}
		before, rest, ok := strings.Cut(prompt, mark)
		if !ok || strings.Contains(before, image) || strings.Contains(before, video) {
			return "", fmt.Errorf("%w: picture %d of %d has no place where the chat template should have put one", ErrPicture, i, len(pictures))
		}
		out.WriteString(before)
		prompt = rest
		if !p.Video() {
			out.WriteString(strings.Repeat(image, p.Places()))
			continue
		}
		for _, t := range p.times {
			out.WriteString(vision.TimeText(t) + start + strings.Repeat(video, p.patches.FramePlaces()) + end)
		}
	}
	if strings.Contains(prompt, image) || strings.Contains(prompt, video) {
		return "", fmt.Errorf("%w: the prompt has a place for more than the %d there are: text must not spell %s", ErrPicture, len(pictures), image)
	}
	out.WriteString(prompt)
	return out.String(), nil
}
