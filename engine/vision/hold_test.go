// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"os"
	"runtime"
	"strings"
	"testing"
)

// scansJPEG is a progressive picture of one colour and as many scans, each of which
// says in a few bits that all of its blocks are zero.
func scansJPEG(w, h, scans int) []byte {
	b := []byte("\xff\xd8\xff\xdb\x00\x43\x00" + strings.Repeat("\x01", 64) + "\xff\xc2\x00\x0b\x08")
	b = binary.BigEndian.AppendUint16(b, uint16(h))
	b = binary.BigEndian.AppendUint16(b, uint16(w))
	b = append(b, "\x01\x01\x11\x00"...)
	// One code of a bit: for coefficients, that the next 2^14 blocks and more are zero.
	b = append(b, "\xff\xc4\x00\x14\x10\x01"+strings.Repeat("\x00", 15)+"\xe0"...)
	const most = 1<<15 - 1 // blocks of a code
	blocks := (w + 7) / 8 * ((h + 7) / 8)
	for range scans {
		b = append(b, "\xff\xda\x00\x08\x01\x01\x00\x01\x3f\x00"...)
		bits := strings.Repeat("0"+strings.Repeat("1", 14), (blocks+most-1)/most)
		for bits += strings.Repeat("1", -len(bits)&7); bits != ""; bits = bits[8:] {
			v := byte(0)
			for _, bit := range bits[:8] {
				v = v<<1 | byte(bit-'0')
			}
			if b = append(b, v); v == 0xff {
				b = append(b, 0)
			}
		}
	}
	return append(b, "\xff\xd9"...)
}

// A JPEG of many scans takes time that its size does not tell.
func TestDecodeManyScans(t *testing.T) {
	if _, err := Decode(context.Background(), bytes.NewReader(scansJPEG(64, 64, maxScans)), Limits{}); err != nil {
		t.Errorf("%d scans: %v", maxScans, err)
	}
	_, err := Decode(context.Background(), bytes.NewReader(scansJPEG(64, 64, maxScans+1)), Limits{})
	if !errors.Is(err, ErrSize) || !strings.Contains(err.Error(), "scans") {
		t.Errorf("%d scans: error %v, want ErrSize that says so", maxScans+1, err)
	}
	// What looks like scans behind the end, or in a comment, is none.
	whole, err := os.ReadFile("testdata/decode/420.jpg")
	if err != nil {
		t.Fatal(err)
	}
	noise := strings.Repeat("\xff\xda", 200)
	comment := "\xff\xfe\x01\x92" + noise
	data := whole[:2:2]
	data = append(append(append(data, comment...), whole[2:]...), noise...)
	if _, err := Decode(context.Background(), bytes.NewReader(data), Limits{}); err != nil {
		t.Errorf("markers that are none: %v", err)
	}
}

// A few bytes that claim many pixels are refused before memory is spent on them.
func TestDecodeClaims(t *testing.T) {
	const side = 5000
	claim := func(name string, order binary.ByteOrder, size int, at ...int) []byte {
		data, err := os.ReadFile("testdata/decode/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range at {
			if size == 2 {
				order.PutUint16(data[p:], side)
			} else {
				order.PutUint32(data[p:], side)
			}
		}
		return data
	}
	rgb := claim("rgb.png", binary.BigEndian, 4, 16, 20)
	binary.BigEndian.PutUint32(rgb[29:], crc32.ChecksumIEEE(rgb[12:29]))
	header := rgb[:33:33]
	jpg := claim("420.jpg", binary.BigEndian, 2)
	sof := bytes.Index(jpg, []byte("\xff\xc0")) + 5
	vp8 := bytes.Index(claim("lossy.webp", binary.LittleEndian, 2), []byte("\x9d\x01\x2a")) + 3
	frame := bytes.IndexByte(claim("palette.gif", binary.LittleEndian, 2), ',') + 5
	for name, data := range map[string][]byte{
		"png": rgb, "png header": append(header, "\x00\x00\x00\x0aIDAT\x78\x9c"...),
		"jpeg": claim("420.jpg", binary.BigEndian, 2, sof, sof+2), "progressive": scansJPEG(side, side, 3),
		"gif":  claim("palette.gif", binary.LittleEndian, 2, 6, 8, frame, frame+2),
		"webp": claim("lossy.webp", binary.LittleEndian, 2, vp8, vp8+2),
		"bmp":  claim("rgb.bmp", binary.LittleEndian, 4, 18, 22), "bmp palette": claim("palette.bmp", binary.LittleEndian, 4, 18, 22),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Decode(context.Background(), bytes.NewReader(data), Limits{})
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "5000 x 5000 pixels") || !strings.Contains(err.Error(), "hold") {
			t.Errorf("%s: error %v, want ErrFormat that says what the bytes hold", name, err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
			t.Errorf("%s: %d bytes of memory for %d of file", name, got, len(data))
		}
	}
}

// A picture of one colour is the most that a file can hold, and is taken.
func TestDecodeOneColour(t *testing.T) {
	const side = 3000
	flat := image.NewPaletted(image.Rect(0, 0, side, side), color.Palette{color.White, color.Black})
	grey := image.NewGray(image.Rect(0, 0, side, side))
	for name, write := range map[string]func(b *bytes.Buffer) error{
		"png": func(b *bytes.Buffer) error {
			return (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(b, flat)
		},
		"grey png": func(b *bytes.Buffer) error {
			return (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(b, grey)
		},
		"gif":  func(b *bytes.Buffer) error { return gif.Encode(b, flat, nil) },
		"jpeg": func(b *bytes.Buffer) error { return jpeg.Encode(b, grey, &jpeg.Options{Quality: 1}) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		n := b.Len()
		if m, err := Decode(context.Background(), &b, Limits{}); err != nil || m.Width != side {
			t.Errorf("%s of %d bytes: %v", name, n, err)
		}
	}
	// A lossless WebP of one colour needs no bits for its pixels.
	if n := holds("webp", []byte("RIFF\x1e\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00/")); n < 1<<31 {
		t.Errorf("a lossless WebP of %d pixels at most", n)
	}
	// And one with a header for more, whose pixels are behind other chunks, is found.
	head := "RIFF\x40\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	if n := holds("webp", []byte(head+"ICCP\x03\x00\x00\x00abc\x00VP8 \x04\x00\x00\x00abcd")); n != 4*vp8Pixels {
		t.Errorf("4 bytes of pixels hold %d, want %d", n, 4*vp8Pixels)
	}
	for _, data := range []string{head, head + "ICCP\xff\xff\xff\xffabc", head + "VP8"} {
		if n := holds("webp", []byte(data)); n != 0 {
			t.Errorf("%q: holds %d pixels, want none", data, n)
		}
	}
}

// ends is a context that is cancelled when somebody looks at it for the nth time.
type ends struct {
	context.Context
	left int
}

func (e *ends) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

// Who gives up a picture does not wait for all of it to be decoded.
func TestDecodeCancelled(t *testing.T) {
	const many = 1 << 30
	for _, name := range []string{"rgb.png", "420.jpg", "progressive.jpg", "palette.gif", "lossless.webp", "lossy.webp", "rgb.bmp"} {
		data, err := os.ReadFile("testdata/decode/" + name)
		if err != nil {
			t.Fatal(err)
		}
		ctx := &ends{context.Background(), many}
		if _, err := Decode(ctx, bytes.NewReader(data), Limits{}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		looks := many - ctx.left
		if want := len(data) / sip / 2; looks < want {
			t.Errorf("%s of %d bytes: %d looks at the context, want %d and more", name, len(data), looks, want)
		}
		for n := range looks {
			m, err := Decode(&ends{context.Background(), n}, bytes.NewReader(data), Limits{})
			if m != nil || errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "read a picture") {
				t.Errorf("%s cancelled at look %d of %d: %v", name, n, looks, err)
			}
		}
	}
}
