// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"math"

	"golang.org/x/image/bmp"
	"golang.org/x/image/webp"
)

// Image is a picture: opaque, the right way up, 3 bytes a pixel.
type Image struct {
	Width, Height int
	Pix           []uint8 // [Height][Width][3], red, green, blue
}

// Limits bound what [Decode] takes. A zero field means the default.
type Limits struct {
	Bytes  int64 // of the file, default 32 MiB
	Pixels int64 // width times height, default 32 Mi
}

const (
	defaultBytes  = 32 << 20
	defaultPixels = 32 << 20

	// minSide: a picture of fewer pixels a side shows nothing. The model would
	// look at some hundred pixels of one colour.
	minSide = 4
	// maxRatio is the reference's limit, long side to short.
	maxRatio = 200

	// decodeBytes is the most a pixel takes while it is decoded: 16 for the
	// coefficients of a progressive JPEG of four colours, 4 for these, 4 for
	// them side by side, 3 for the result. Usual files take 5 to 8.
	decodeBytes = 27
)

// fill replaces zero fields by the defaults.
func (l Limits) fill() Limits {
	if l.Bytes <= 0 {
		l.Bytes = defaultBytes
	}
	if l.Pixels <= 0 {
		l.Pixels = defaultPixels
	}
	return l
}

// FileBytes is the size of a file that is taken, at most.
func (l Limits) FileBytes() int64 { return l.fill().Bytes }

// Memory is the most that decoding within the limits takes, about.
func (l Limits) Memory() int64 {
	l = l.fill()
	return 2*l.Bytes + decodeBytes*l.Pixels
}

// format is a kind of file.
type format struct {
	name   string
	magic  string // ? is any byte
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
}

// formats are called directly rather than through the registry of package
// image, to which any other package may add.
var formats = []format{
	{"png", "\x89PNG\r\n\x1a\n", png.DecodeConfig, png.Decode},
	{"jpeg", "\xff\xd8\xff", jpeg.DecodeConfig, jpeg.Decode},
	{"gif", "GIF8?a", gif.DecodeConfig, gif.Decode},
	{"webp", "RIFF????WEBP", webp.DecodeConfig, webp.Decode},
	{"bmp", "BM", bmp.DecodeConfig, bmp.Decode},
}

func (f *format) matches(data []byte) bool {
	if len(data) < len(f.magic) {
		return false
	}
	for i := range len(f.magic) {
		if c := f.magic[i]; c != '?' && c != data[i] {
			return false
		}
	}
	return true
}

// Decode reads a PNG, JPEG, GIF (its first frame), WebP (a still) or BMP file,
// turns it as its EXIF orientation says, and lays what is transparent over
// white. Size and shape are held to the limits by the file's header, and to what
// its length has room for, before the decoder runs. The end of ctx ends it, within
// what a decoder makes of a few bytes; a lossy WebP's gets all of them at once.
// Errors are [ErrFormat], [ErrSize], the reader's or the context's.
func Decode(ctx context.Context, r io.Reader, l Limits) (*Image, error) {
	l = l.fill()
	data, err := io.ReadAll(io.LimitReader(&sips{ctx: ctx, r: r, n: math.MaxInt}, l.Bytes+1))
	if ctx.Err() != nil {
		return nil, stopped(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("vision: read a picture: %w", err)
	}
	if int64(len(data)) > l.Bytes {
		return nil, fmt.Errorf("vision: picture file of more than %d bytes: %w", l.Bytes, ErrSize)
	}
	for i := range formats {
		if f := &formats[i]; f.matches(data) {
			return f.read(ctx, data, l)
		}
	}
	return nil, fmt.Errorf("vision: %d bytes begin like none of PNG, JPEG, GIF, WebP and BMP: %w", len(data), ErrFormat)
}

// sips reads a few bytes at a time, as long as the context lasts.
type sips struct {
	ctx context.Context
	r   io.Reader
	n   int // bytes at a time
}

// sip is how many bytes a decoder gets between two looks at the context: the scan of
// a progressive JPEG may go over all of a picture in as many.
const sip = 64

func (s *sips) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.Read(p[:min(len(p), s.n)])
}

// stopped is the error of a context that has ended.
func stopped(ctx context.Context) error {
	return fmt.Errorf("vision: read a picture: %w", ctx.Err())
}

func (f *format) read(ctx context.Context, data []byte, l Limits) (img *Image, err error) {
	// The decoders are not ours, and each has had panics on made-up files.
	defer func() {
		if r := recover(); r != nil {
			img, err = nil, fmt.Errorf("vision: %s: decoder failed: %v: %w", f.name, r, ErrFormat)
		}
	}()
	c, err := f.config(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("vision: %s: header: %v: %w", f.name, err, ErrFormat)
	}
	if err := checkSize(f.name, c.Width, c.Height, l.Pixels); err != nil {
		return nil, err
	}
	if f.name == "jpeg" {
		if err := checkScans(data); err != nil {
			return nil, err
		}
	}
	if f.name == "webp" && animated(data) {
		return nil, fmt.Errorf("vision: webp: animated, only stills are read: %w", ErrFormat)
	}
	if err := checkHeld(f.name, data, c.Width, c.Height); err != nil {
		return nil, err
	}
	m, err := f.decode(&sips{ctx: ctx, r: bytes.NewReader(data), n: sip})
	if ctx.Err() != nil {
		return nil, stopped(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("vision: %s of %d x %d pixels, %d bytes: %v: %w", f.name, c.Width, c.Height, len(data), err, ErrFormat)
	}
	frame := image.Rect(0, 0, c.Width, c.Height)
	if b := m.Bounds(); b != frame && (f.name != "gif" || !b.In(frame)) {
		return nil, fmt.Errorf("vision: %s: header of %d x %d pixels, data of %v: %w", f.name, c.Width, c.Height, b, ErrFormat)
	}
	return toRGB(m, frame, f.name == "webp", orientation(f.name, data)), nil
}

// checkSize holds a picture's sides to the limits.
func checkSize(what string, w, h int, pixels int64) error {
	short, long := min(w, h), max(w, h)
	switch {
	case short < minSide:
		return fmt.Errorf("vision: %s of %d x %d pixels, the least is %d a side: %w", what, w, h, minSide, ErrSize)
	case int64(w) > pixels/int64(h):
		return fmt.Errorf("vision: %s of %d x %d pixels, the most is %d in all: %w", what, w, h, pixels, ErrSize)
	case long > maxRatio*short:
		return fmt.Errorf("vision: %s of %d x %d pixels, one side may be at most %d times the other: %w", what, w, h, maxRatio, ErrSize)
	}
	return nil
}

// maxScans bounds the scans of a progressive JPEG. Each goes over all of the picture,
// in some bytes of file if it has nothing to say. What programs write has about ten,
// and 18 in four colours.
const maxScans = 24

// checkScans counts the scans of a JPEG, from marker to marker as decoders go. What
// is behind its end, such as the film of a moving photograph, is none of it.
func checkScans(data []byte) error {
	const scan, end = 0xda, 0xd9
	n := 0
	for p := 2; ; {
		next := bytes.IndexByte(data[min(p, len(data)):], 0xff)
		if next < 0 || p+next+4 > len(data) {
			break
		}
		p += next
		switch marker := data[p+1]; {
		case marker == 0xff: // filling
			p++
		case marker < 2 || marker >= 0xd0 && marker <= 0xd8: // alone, or 0xff in compressed data
			p += 2
		case marker == end:
			return nil
		default:
			if marker == scan {
				n++
			}
			p += 2 + int(binary.BigEndian.Uint16(data[p+2:]))
		}
		if n > maxScans {
			return fmt.Errorf("vision: jpeg: more than %d scans: %w", maxScans, ErrSize)
		}
	}
	return nil
}

// animated tells whether a WebP's header says that it has frames.
func animated(data []byte) bool {
	return len(data) > 20 && string(data[12:16]) == "VP8X" && data[20]&2 != 0
}
