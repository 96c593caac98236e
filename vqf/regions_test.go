// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"windhover/vqf"
)

// TestChecksumCovers flips one byte in each region of a plain file: header and
// gaps leave the checksum equal, everything else breaks it. (TestTagCovers does
// the same for encrypted files.)
func TestChecksumCovers(t *testing.T) {
	for _, fields := range []int{41, 45} {
		path, res := writeMini(t, miniSpec(vqf.ModeQ4, fields), nil, map[string]string{vqf.NameMeta: "{}"})
		good := readFile(t, path)
		tail := 184
		if fields == 45 {
			tail = 200
		}
		end := int(binary.LittleEndian.Uint64(good[tail+8:]))
		lm := 448 + 64*13
		padding := int(binary.LittleEndian.Uint64(good[lm+48:]) + binary.LittleEndian.Uint64(good[lm+56:]))
		for _, c := range []struct {
			region string
			at     int
			breaks bool
		}{
			{"header, max_seq_len", 44, false},
			{"header, bos_id", 56, false},
			{"gap after a short header", 440, false},
			{"gap, first byte", 448 + 64*15, false},
			{"gap, last byte", 4095, false},
			{"directory, a name", 448 + 64*14 + 31, true},
			{"data, first byte", 4096, true},
			{"data, middle", 9999, true},
			{"data, embedded", end - 63, true},
			{"padding", padding, true},
			{"last byte of the data area", end - 1, true},
			{"trailer, first byte", end, true},
			{"trailer, last byte", end + 7, true},
		} {
			if fields == 45 && c.at == 440 { // the signature block: malformed
				continue
			}
			b := append([]byte(nil), good...)
			if c.at == 448+64*14+31 {
				// A flip in a known entry is refused before the sum; an unknown name is free.
				copy(b[448+64*14:], "z_meta")
			} else {
				b[c.at] ^= 1
			}
			f, err := vqf.Open(tempFile(t, b), vqf.OpenOptions{FullCheck: true})
			if err == nil {
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}
			if c.breaks != errors.Is(err, vqf.ErrChecksum) || !c.breaks && err != nil {
				t.Errorf("%d fields, %s: got %v, breaks is %v", fields, c.region, err, c.breaks)
			}
			r, err := vqf.Verify(t.Context(), tempFile(t, b), vqf.VerifyOptions{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _, match := r.Sums()
			if (r.Computed == res.FileSum && r.Stored == res.FileSum) == c.breaks || (match == vqf.MatchYes) == c.breaks {
				t.Errorf("%d fields, %s: computed 0x%x, stored 0x%x, match %s", fields, c.region, r.Computed, r.Stored, match)
			}
		}
	}
}
