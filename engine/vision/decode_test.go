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
	"image/png"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// readPNG is an opaque PNG's pixels, read without the code under test.
func readPNG(t testing.TB, path string) *Image {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	b := m.Bounds()
	out := &Image{Width: b.Dx(), Height: b.Dy()}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			c := color.NRGBAModel.Convert(m.At(x, y)).(color.NRGBA)
			if c.A != 255 {
				t.Fatalf("%s: not opaque", path)
			}
			out.Pix = append(out.Pix, c.R, c.G, c.B)
		}
	}
	return out
}

// difference is the largest and the mean difference of two pictures.
func difference(t testing.TB, got, want *Image) (most int, mean float64) {
	t.Helper()
	if got.Width != want.Width || got.Height != want.Height || len(got.Pix) != len(want.Pix) {
		t.Fatalf("%d x %d pixels (%d bytes), want %d x %d", got.Width, got.Height, len(got.Pix), want.Width, want.Height)
	}
	sum := 0
	for i, v := range got.Pix {
		d := int(v) - int(want.Pix[i])
		d = max(d, -d)
		most, sum = max(most, d), sum+d
	}
	return most, float64(sum) / float64(len(got.Pix))
}

// Every kind of file, against what Pillow makes of it. Lossless ones are equal.
// The decoders of the lossy ones round their transforms differently.
func TestDecodeLikeReference(t *testing.T) {
	files, err := filepath.Glob("testdata/decode/*.png.png")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"jpg", "webp", "bmp", "gif"} {
		more, err := filepath.Glob("testdata/decode/*." + kind + ".png")
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	if len(files) != 34 {
		t.Fatalf("%d pictures, want 34", len(files))
	}
	for _, want := range files {
		path := strings.TrimSuffix(want, ".png")
		t.Run(filepath.Base(path), func(t *testing.T) {
			m := decodeFile(t, path)
			mostOK, meanOK := 0, 0.0
			name := filepath.Base(path)
			if strings.HasSuffix(name, ".jpg") || strings.Contains(name, "lossy") || name == "exif8.webp" {
				mostOK, meanOK = 4, 0.5
			}
			most, mean := difference(t, m, readPNG(t, want))
			t.Logf("largest difference %d, mean %.3f", most, mean)
			if most > mostOK || mean > meanOK {
				t.Errorf("largest difference %d, mean %.3f, want at most %d and %.1f", most, mean, mostOK, meanOK)
			}
		})
	}
}

// pngOf is a PNG whose header says w x h, with no data.
func pngOf(w, h uint32) []byte {
	b := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR")
	b = binary.BigEndian.AppendUint32(b, w)
	b = binary.BigEndian.AppendUint32(b, h)
	b = append(b, 8, 2, 0, 0, 0)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[12:]))
}

func gifOf(w, h uint16) []byte {
	b := binary.LittleEndian.AppendUint16([]byte("GIF89a"), w)
	return append(binary.LittleEndian.AppendUint16(b, h), 0, 0, 0)
}

func bmpOf(w, h uint32) []byte {
	b := make([]byte, 54)
	copy(b, "BM")
	for at, v := range map[int]uint32{10: 54, 14: 40, 18: w, 22: h, 26: 1 | 24<<16} {
		binary.LittleEndian.PutUint32(b[at:], v)
	}
	return b
}

// webpOf is a lossless WebP, both sides at most 16384.
func webpOf(w, h uint32) []byte {
	b := []byte("RIFF\x14\x00\x00\x00WEBPVP8L\x08\x00\x00\x00\x2f")
	b = binary.LittleEndian.AppendUint32(b, (w-1)|(h-1)<<14)
	return append(b, 0x88, 0x88, 0x08)
}

// jpegOf is a JPEG's header.
func jpegOf(w, h uint16) []byte {
	b := []byte("\xff\xd8\xff\xc0\x00\x0b\x08")
	b = binary.BigEndian.AppendUint16(b, h)
	b = binary.BigEndian.AppendUint16(b, w)
	return append(b, "\x01\x01\x11\x00\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00"...)
}

// What a header says is refused before it costs memory.
func TestDecodeRefusesSize(t *testing.T) {
	cases := []struct {
		name string
		data []byte
		say  string
	}{
		{"png bomb", pngOf(100000, 100000), "100000 x 100000"},
		{"gif bomb", gifOf(65535, 65535), "65535 x 65535"},
		{"bmp bomb", bmpOf(30000, 30000), "30000 x 30000"},
		{"webp bomb", webpOf(16384, 16384), "16384 x 16384"},
		{"jpeg bomb", jpegOf(65535, 65535), "65535 x 65535"},
		{"one pixel", pngOf(1, 1), "1 x 1"},
		{"strip", pngOf(20000, 3), "20000 x 3"},
		{"long strip", gifOf(4, 1000), "4 x 1000"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Decode(context.Background(), bytes.NewReader(c.data), Limits{})
			runtime.ReadMemStats(&after)
			if !errors.Is(err, ErrSize) || !strings.Contains(err.Error(), c.say) {
				t.Errorf("error %v, want ErrSize with %q", err, c.say)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
				t.Errorf("%d bytes were allocated", n)
			}
		})
	}
}

func TestDecodeLimits(t *testing.T) {
	data, err := os.ReadFile("testdata/decode/rgb.png")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []Limits{{Bytes: int64(len(data)) - 1}, {Pixels: 45*31 - 1}} {
		if _, err := Decode(context.Background(), bytes.NewReader(data), l); !errors.Is(err, ErrSize) {
			t.Errorf("%+v: error %v, want ErrSize", l, err)
		}
	}
	if _, err := Decode(context.Background(), bytes.NewReader(data), Limits{Bytes: int64(len(data)), Pixels: 45 * 31}); err != nil {
		t.Errorf("at the limits: %v", err)
	}
}

// A progressive JPEG of four colours takes most, and no more than is said.
func TestDecodeMemory(t *testing.T) {
	data, err := os.ReadFile("testdata/decode/memory.jpg")
	if err != nil {
		t.Fatal(err)
	}
	l := Limits{Bytes: int64(len(data)), Pixels: 512 * 384}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m, err := Decode(context.Background(), bytes.NewReader(data), l)
	runtime.ReadMemStats(&after)
	if err != nil || m.Width != 512 || m.Height != 384 {
		t.Fatalf("%v, %v", m, err)
	}
	const decoder = 256 << 10 // tables and buffers, whatever the size
	got := int64(after.TotalAlloc - before.TotalAlloc)
	t.Logf("%.1f bytes a pixel", float64(got)/(512*384))
	if got > l.Memory()+decoder || got < l.Memory()/2 {
		t.Errorf("took %d bytes, said %d", got, l.Memory())
	}
}

// Each file cut short anywhere is an error, or a picture of the same size where
// what is missing came after the pixels.
func TestDecodeTruncated(t *testing.T) {
	for _, name := range []string{"rgb.png", "420.jpg", "progressive.jpg", "palette.gif", "lossy-alpha.webp", "lossless.webp", "palette.bmp"} {
		data, err := os.ReadFile("testdata/decode/" + name)
		if err != nil {
			t.Fatal(err)
		}
		refused := 0
		for n := range len(data) {
			m, err := Decode(context.Background(), bytes.NewReader(data[:n]), Limits{})
			switch {
			case err != nil && !errors.Is(err, ErrFormat):
				t.Errorf("%s cut to %d bytes: error %v, want ErrFormat", name, n, err)
			case err != nil:
				refused++
			case m.Width != 45 || m.Height != 31:
				t.Errorf("%s cut to %d bytes: %d x %d", name, n, m.Width, m.Height)
			}
		}
		if refused < len(data)*9/10 {
			t.Errorf("%s: refused %d of %d lengths", name, refused, len(data))
		}
	}
}

func TestDecodeOther(t *testing.T) {
	for _, data := range []string{"", "P6 1 1 255 abc", "<svg/>", "\x89PNG", "RIFF1234WAVE", "GIF87", "II*\x00"} {
		if _, err := Decode(context.Background(), strings.NewReader(data), Limits{}); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: error %v, want ErrFormat", data, err)
		}
	}
}

func TestDecodeAnimated(t *testing.T) {
	data := "RIFF\x1e\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x02\x00\x00\x00\x3f\x00\x00\x3f\x00\x00ANIM\x00\x00\x00\x00"
	if _, err := Decode(context.Background(), strings.NewReader(data), Limits{}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "animated") {
		t.Errorf("error %v, want ErrFormat that says animated", err)
	}
}

// A frame smaller than its GIF lies on white.
func TestDecodeSmallFrame(t *testing.T) {
	frame := image.NewPaletted(image.Rect(2, 1, 5, 4), color.Palette{color.RGBA{10, 20, 30, 255}})
	var b bytes.Buffer
	err := gif.EncodeAll(&b, &gif.GIF{Image: []*image.Paletted{frame}, Delay: []int{0}, Config: image.Config{Width: 8, Height: 6}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := Decode(context.Background(), &b, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if m.Width != 8 || m.Height != 6 {
		t.Fatalf("%d x %d pixels, want 8 x 6", m.Width, m.Height)
	}
	for y := range 6 {
		for x := range 8 {
			want := [3]uint8{255, 255, 255}
			if (image.Point{x, y}).In(frame.Rect) {
				want = [3]uint8{10, 20, 30}
			}
			if got := [3]uint8(m.Pix[3*(8*y+x):]); got != want {
				t.Errorf("pixel %d, %d is %v, want %v", x, y, got, want)
			}
		}
	}
}

// Whatever the bytes, decoding ends without a panic and says what the limits
// promise.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/decode/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, ".png.png") {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	l := Limits{Bytes: 1 << 16, Pixels: 1 << 14}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Decode(context.Background(), bytes.NewReader(data), l)
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrSize) {
				t.Errorf("error %v", err)
			}
			return
		}
		if m.Width < minSide || m.Height < minSide || m.Width*m.Height > 1<<14 || len(m.Pix) != 3*m.Width*m.Height {
			t.Errorf("%d x %d pixels, %d bytes", m.Width, m.Height, len(m.Pix))
		}
	})
}

func FuzzOrientation(f *testing.F) {
	f.Add("jpeg", []byte("\xff\xd8\xff\xe1\x00\x20Exif\x00\x00II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00"))
	f.Add("png", []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x1aeXIfMM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x03\x00\x00crc4"))
	f.Add("webp", []byte("RIFF\x20\x00\x00\x00WEBPEXIF\x14\x00\x00\x00II*\x00\x08\x00\x00\x00\x01\x00"))
	f.Fuzz(func(t *testing.T, format string, data []byte) {
		if v := orientation(format, data); v < 1 || v > 8 {
			t.Errorf("orientation %d", v)
		}
	})
}

func TestOrientation(t *testing.T) {
	tiff := func(order string, tag, typ, count, value byte) string {
		if order == "MM" {
			return "MM\x00*\x00\x00\x00\x08\x00\x01\x01" + string([]byte{tag, 0, typ, 0, 0, 0, count, 0, value, 0, 0})
		}
		return "II*\x00\x08\x00\x00\x00\x01\x00" + string([]byte{tag, 1, typ, 0, count, 0, 0, 0, value, 0, 0, 0})
	}
	for _, c := range []struct {
		name, block string
		want        int
	}{
		{"little", tiff("II", 0x12, 3, 1, 6), 6},
		{"big", tiff("MM", 0x12, 3, 1, 8), 8},
		{"other tag", tiff("II", 0x13, 3, 1, 6), 1},
		{"other type", tiff("II", 0x12, 4, 1, 6), 1},
		{"two values", tiff("II", 0x12, 3, 2, 6), 1},
		{"nine", tiff("II", 0x12, 3, 1, 9), 1},
		{"zero", tiff("MM", 0x12, 3, 1, 0), 1},
		{"cut", tiff("II", 0x12, 3, 1, 6)[:20], 1},
		{"far directory", "II*\x00\xff\xff\xff\xff\x01\x00", 1},
		{"empty", "", 1},
	} {
		if got := tiffOrientation([]byte(c.block)); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
