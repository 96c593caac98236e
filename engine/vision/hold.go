// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"encoding/binary"
	"fmt"
	"math"
)

// What a decoder allocates goes by the header, which a few bytes can make say
// anything. But each kind of file holds so many pixels in a byte at most, so that a
// file too short for those it claims is told before memory is spent on them: it is
// damaged. The most is reached by a picture of one colour.
const (
	// pngBytes: of a deflate stream, 258 bytes in 2 bits.
	pngBytes = 1032
	// jpegPixels: a block of 8 x 8 takes a bit of its first scan.
	jpegPixels = 64 * 8
	// gifPixels: a code of 12 bits stands for less than 4096 pixels, shorter codes
	// for less each bit.
	gifPixels = 4096 * 8 / 12
	// vp8Pixels: the modes of a macroblock of 16 x 16 take 1.67 bits, by fixed
	// probabilities: 145/256 for the least of luma, 142/256 of chroma.
	vp8Pixels = 256 * 8 * 100 / 167
)

// holds is the most pixels that the data of a file has room for. A lossless WebP of
// one colour takes no bits for a pixel at all: the limit of pixels alone holds there.
func holds(format string, data []byte) int64 {
	n := int64(len(data))
	switch format {
	case "png":
		return n * pngBytes * 8 / pngBits(data)
	case "jpeg":
		return n * jpegPixels
	case "gif":
		return n * gifPixels
	case "webp":
		return webpHolds(data)
	case "bmp":
		return n * 8 / bmpBits(data)
	}
	return 0
}

// checkHeld refuses a file whose header promises more than there is.
func checkHeld(format string, data []byte, w, h int) error {
	if most := holds(format, data); int64(w) > most/int64(h) {
		return fmt.Errorf("vision: %s of %d x %d pixels: %d bytes hold at most %d: %w", format, w, h, len(data), most, ErrFormat)
	}
	return nil
}

// pngBits are the bits of a pixel by the header, which has been read.
func pngBits(data []byte) int64 {
	channels := map[byte]int64{0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
	return max(int64(data[24]), 1) * max(channels[data[25]], 1)
}

// bmpBits are the bits of a pixel by the header, which has been read.
func bmpBits(data []byte) int64 { return max(int64(binary.LittleEndian.Uint16(data[28:])), 1) }

// webpHolds looks for the chunk with the pixels.
func webpHolds(data []byte) int64 {
	const head = 8
	for p := 12; len(data)-p >= head; {
		n := int64(binary.LittleEndian.Uint32(data[p+4:]))
		switch string(data[p : p+4]) {
		case "VP8L":
			return math.MaxInt64
		case "VP8 ":
			return min(n, int64(len(data)-p-head)) * vp8Pixels
		}
		if n > int64(len(data)-p-head) {
			break
		}
		p += head + int(n+n&1)
	}
	return 0
}
