// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"bytes"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"

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
// white. Size and shape are held to the limits by the file's header, before
// the decoder runs. Errors are [ErrFormat], [ErrSize] or the reader's.
func Decode(r io.Reader, l Limits) (*Image, error) {
	l = l.fill()
	data, err := io.ReadAll(io.LimitReader(r, l.Bytes+1))
	if err != nil {
		return nil, fmt.Errorf("vision: read a picture: %w", err)
	}
	if int64(len(data)) > l.Bytes {
		return nil, fmt.Errorf("vision: picture file of more than %d bytes: %w", l.Bytes, ErrSize)
	}
	for i := range formats {
		if f := &formats[i]; f.matches(data) {
			return f.read(data, l)
		}
	}
	return nil, fmt.Errorf("vision: %d bytes begin like none of PNG, JPEG, GIF, WebP and BMP: %w", len(data), ErrFormat)
}

func (f *format) read(data []byte, l Limits) (img *Image, err error) {
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
	m, err := f.decode(bytes.NewReader(data))
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

// maxScans bounds the scans of a progressive JPEG. Each may go over all of the
// picture for a few bytes of file; what programs write has about ten.
const maxScans = 64

// checkScans counts the scans of a JPEG. In compressed data 0xff is followed by
// 0, so that the marker cannot be met there.
func checkScans(data []byte) error {
	if n := bytes.Count(data, []byte{0xff, 0xda}); n > maxScans {
		return fmt.Errorf("vision: jpeg: %d scans, the most is %d: %w", n, maxScans, ErrSize)
	}
	return nil
}

// animated tells whether a WebP's header says that it has frames.
func animated(data []byte) bool {
	return len(data) > 20 && string(data[12:16]) == "VP8X" && data[20]&2 != 0
}
