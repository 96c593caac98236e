// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"windhover/internal/testmodel"
)

// Who gives up while another's are read does not wait for them, and a video ends with
// its request.
func TestDecodingIsGivenUp(t *testing.T) {
	m := seeing(t, Options{Threads: 1})
	file := noisePNG(t, 48, 48, 1)
	one := func(ctx context.Context) error {
		_, err := m.Picture(ctx, bytes.NewReader(file))
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	why := context.Canceled
	_, err := m.Video(ctx, 4, 2, func(i int) (io.ReadCloser, error) {
		switch i {
		case 0: // the turn is this one's: who comes waits, and leaves
			gone, leave := context.WithCancel(context.Background())
			waits := make(chan error)
			go func() { waits <- one(gone) }()
			leave()
			if err := <-waits; !errors.Is(err, why) {
				t.Errorf("a picture that was given up: error %v, want %v", err, why)
			}
		case 2:
			cancel()
		case 3:
			t.Error("the video goes on after its end")
		}
		return io.NopCloser(bytes.NewReader(file)), nil
	})
	if !errors.Is(err, why) || errors.Is(err, ErrPicture) {
		t.Errorf("a cancelled video: error %v, want %v", err, why)
	}
	if err := one(ctx); !errors.Is(err, why) {
		t.Errorf("a picture for nobody: error %v, want %v", err, why)
	}
}

// Between two pictures of a video the turn is another's, who waits before the first
// of them is read.
func TestTurnBetweenFrames(t *testing.T) {
	m := seeing(t, Options{Threads: 1})
	file := noisePNG(t, 48, 48, 1)
	synctest.Test(t, func(t *testing.T) {
		m.sight.decoding = make(chan struct{}, 1) // of the bubble, where waiting for it is seen
		waits := make(chan error, 1)
		_, err := m.Video(t.Context(), 4, 2, func(i int) (io.ReadCloser, error) {
			switch i {
			case 0:
				go func() {
					_, err := m.Picture(t.Context(), bytes.NewReader(file))
					waits <- err
				}()
				synctest.Wait()
				if len(waits) != 0 {
					t.Error("two are decoded at a time")
				}
			case 2:
				if err := <-waits; err != nil { // it had its turn, or this waits for ever
					t.Error(err)
				}
			}
			return io.NopCloser(bytes.NewReader(file)), nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// The pictures of requests that wait are counted for all of them together, and no
// more are taken than admission has counted.
func TestPicturesHeld(t *testing.T) {
	m := seeing(t, Options{Threads: 1})
	budget := m.sight.held.budget
	n := m.Info().Need.pictures
	if n.held != budget || n.bytes < n.held+n.limits.Memory()+n.kept {
		t.Errorf("%d bytes of pictures may be held, %d counted of %d in all", budget, n.held, n.bytes)
	}
	ctx, answered := context.WithCancel(context.Background())
	file := noisePNG(t, 128, 128, 1)
	var held int64
	var err error
	for err == nil && held <= budget {
		var p *Picture
		request, cancel := context.WithCancel(ctx)
		defer cancel()
		if p, err = m.Picture(request, bytes.NewReader(file)); err == nil {
			held += p.patches.Bytes()
		}
	}
	if !errors.Is(err, ErrPicturesFull) || held > budget || held != m.sight.held.used {
		t.Fatalf("error %v with %d bytes held of %d, counted %d; want ErrPicturesFull", err, held, budget, m.sight.held.used)
	}
	_, err = m.Video(context.Background(), 4, 2, func(int) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file)), nil })
	if !errors.Is(err, ErrPicturesFull) {
		t.Errorf("a video beside them: error %v, want ErrPicturesFull", err)
	}
	answered()
	holdsNone(m)
	still(t, m, 128, 128, 1)
}

// holdsNone waits until no picture is counted: the count goes down behind the end of the
// context, by itself.
func holdsNone(m *Model) {
	h := &m.sight.held
	for used := int64(1); used > 0; {
		h.mu.Lock()
		used = h.used
		h.mu.Unlock()
	}
}

// Pictures of one request that have room together with those of no other are refused for
// good, and for now where others hold the room.
func TestPicturesOfOneRequest(t *testing.T) {
	m := seeing(t, Options{Threads: 1})
	file := noisePNG(t, 128, 128, 1)
	read := func(ctx context.Context) (int64, error) {
		p, err := m.Picture(ctx, bytes.NewReader(file))
		if err != nil {
			return 0, err
		}
		return p.patches.Bytes(), nil
	}
	one, answered := context.WithCancel(context.Background())
	size, err := read(one)
	if err != nil {
		t.Fatal(err)
	}
	m.sight.held.budget = 2*size - 1
	var never *PicturesError
	if _, err := read(one); !errors.As(err, &never) || never.Need != 2*size || never.Limit != 2*size-1 || errors.Is(err, ErrPicturesFull) || !errors.Is(err, ErrPicture) {
		t.Errorf("a second one of the same request: %v", err)
	}
	other, cancel := context.WithCancel(context.Background())
	if _, err := read(other); !errors.Is(err, ErrPicturesFull) {
		t.Errorf("one of another request: %v, want ErrPicturesFull", err)
	}
	answered()
	holdsNone(m)
	if _, err := read(other); err != nil {
		t.Error(err)
	}
	cancel()
	holdsNone(m)
	film := func(int) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file)), nil }
	m.sight.held.budget = size / 2
	if _, err := m.Video(context.Background(), 8, 2, film); !errors.As(err, &never) {
		t.Errorf("a video that is too much by itself: %v", err)
	}
}

// Pictures are not so large that attention, which goes by the square of their pixels,
// costs more than is to be spent, those of a video together.
func TestPicturesAttended(t *testing.T) {
	path := testmodel.Write(t, testmodel.Config{Vision: true, Random: true, Q8: 2, MaxSeq: 512})
	m := load(t, path, Options{Threads: 1})
	tower := m.sight.tower
	side := int64(testmodel.PlaceSide)
	most := tower.Attends(mostAttention)
	for _, pixels := range []int64{testmodel.MaxPixels, testmodel.MaxPixels / 4, 40 * side * side} {
		c := m.sight.cfg
		c.Attended = pixels
		w, h, err := c.Resized(1000, 1000)
		if err != nil || int64(w*h) > pixels || int64(w*h) < pixels/2 {
			t.Errorf("a picture for the attention of %d pixels is %d x %d, %v", pixels, w, h, err)
		}
		for _, frames := range []int{2, 8, 32} {
			c.Video.Max = 1 << 40
			w, h, err := c.ResizedFrames(frames, 1000, 1000)
			each, attended := float64(w*h), float64(pixels)
			if sum := each * each * float64(frames/2); err != nil || sum > attended*attended || sum < attended*attended/4 {
				t.Errorf("%d frames for the attention of %d pixels are %d x %d, %v", frames, pixels, w, h, err)
			}
		}
	}
	if got := m.Info().Sight.MaxPixels; got != testmodel.MaxPixels || got > most {
		t.Errorf("%d pixels at most, attention allows %d", got, most)
	}
	// A hundred times the work are ten times the pixels.
	if a, b := tower.Attends(1<<30), tower.Attends(100<<30); b < 9*a || b > 11*a {
		t.Errorf("%d pixels for a work, %d for a hundred times that", a, b)
	}
}
