// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"encoding/binary"
	"strings"
)

// orientation is the EXIF orientation of a file: 1 to 8, 1 if it says none or
// what it says makes no sense, as other programs take it.
func orientation(format string, data []byte) int {
	var block []byte
	switch format {
	case "jpeg":
		block = jpegEXIF(data)
	case "png":
		block = pngEXIF(data)
	case "webp":
		block = webpEXIF(data)
	}
	return tiffOrientation(block)
}

// exifName begins the block in a JPEG, and in some WebP files.
const exifName = "Exif\x00\x00"

// jpegEXIF is the TIFF data of the first EXIF segment before the picture.
func jpegEXIF(data []byte) []byte {
	for p := 2; p+4 <= len(data) && data[p] == 0xff; {
		marker := data[p+1]
		if marker == 0xff { // filling
			p++
			continue
		}
		if marker == 0xda || marker == 0xd9 { // scan, end
			return nil
		}
		n := int(binary.BigEndian.Uint16(data[p+2:]))
		if n < 2 || p+2+n > len(data) {
			return nil
		}
		if body := data[p+4 : p+2+n]; marker == 0xe1 && strings.HasPrefix(string(body[:min(len(body), len(exifName))]), exifName) {
			return body[len(exifName):]
		}
		p += 2 + n
	}
	return nil
}

// pngEXIF is the content of the eXIf chunk.
func pngEXIF(data []byte) []byte {
	const head, sum = 8, 4
	for p := 8; len(data)-p >= head+sum; {
		n := int64(binary.BigEndian.Uint32(data[p:]))
		if n > int64(len(data)-p-head-sum) {
			return nil
		}
		if string(data[p+4:p+8]) == "eXIf" {
			return data[p+head:][:n]
		}
		p += head + int(n) + sum
	}
	return nil
}

// webpEXIF is the content of the EXIF chunk.
func webpEXIF(data []byte) []byte {
	const head = 8
	for p := 12; len(data)-p >= head; {
		n := int64(binary.LittleEndian.Uint32(data[p+4:]))
		if n > int64(len(data)-p-head) {
			return nil
		}
		if string(data[p:p+4]) == "EXIF" {
			block := data[p+head:][:n]
			if strings.HasPrefix(string(block[:min(n, int64(len(exifName)))]), exifName) {
				block = block[len(exifName):]
			}
			return block
		}
		p += head + int(n+n&1)
	}
	return nil
}

// tiffOrientation looks tag 0x0112 up in the first directory of TIFF data.
func tiffOrientation(b []byte) int {
	const tag, short, entry = 0x0112, 3, 12
	if len(b) < 8 {
		return 1
	}
	var order binary.ByteOrder
	switch string(b[:4]) {
	case "II*\x00":
		order = binary.LittleEndian
	case "MM\x00*":
		order = binary.BigEndian
	default:
		return 1
	}
	at := int64(order.Uint32(b[4:]))
	if at > int64(len(b)-2) {
		return 1
	}
	entries := b[at+2:]
	for range order.Uint16(b[at:]) {
		if len(entries) < entry {
			return 1
		}
		if order.Uint16(entries) == tag {
			v := int(order.Uint16(entries[8:]))
			if order.Uint16(entries[2:]) != short || order.Uint32(entries[4:]) != 1 || v < 1 || v > 8 {
				return 1
			}
			return v
		}
		entries = entries[entry:]
	}
	return 1
}
