// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"

	"windhover/vqf"
)

// TestVectors holds whole files to the conformance vectors byte for byte.
func TestVectors(t *testing.T) {
	for _, v := range []struct {
		mode             vqf.Mode
		fields           int
		flags            vqf.Flags
		n                uint32
		fileLen          uint64
		sum              uint64
		sha              string
		size, dataOffset int64
	}{
		{vqf.ModeQ4, 45, 0x023, 14, 20416, 0x51e8cbfd7daffd39, "c8b10691de19edd91def03f49541e5c750fce467eef68189fffc2c0c1c1abdb0", 20424, 4096},
		{vqf.ModeQ8, 45, 0x023, 14, 32960, 0x3222b06d0200a289, "4f5b7b6891474d02962c4840b6acbf82d4fb985c35f57dec56de505f9d638624", 32968, 4096},
		{vqf.ModeDual, 45, 0x023, 22, 47104, 0x36975dcbc7fe8600, "01e05b7041df2d77a8966d00bfa39078263c8a9008fa76d264a7891bab471b36", 47112, 4096},
		{vqf.ModeQ4I, 45, 0x02A, 14, 32960, 0x01edc56010d05189, "41449fa39933fb0c2cde8f1f013b05e3eecde0b295517e5d3839872a77d1bbdb", 32968, 4096},
		{vqf.ModeQ4, 41, 0x023, 14, 20416, 0x51e8cbfd7daffd39, "98cf2c804440ba9fa56d52d722145d4958d0882b98091b9ed1d8e53d00be101d", 20424, 4096},
		// The vectors name one 41-field file; the other modes' differ from
		// their 45-field ones in the header alone, which test below shows.
		{vqf.ModeQ8, 41, 0x023, 14, 32960, 0x3222b06d0200a289, "", 32968, 4096},
		{vqf.ModeDual, 41, 0x023, 22, 47104, 0x36975dcbc7fe8600, "", 47112, 4096},
	} {
		t.Run(fmt.Sprintf("%s-%d", v.mode, v.fields), func(t *testing.T) {
			path, res := writeMini(t, miniSpec(v.mode, v.fields), nil, nil)
			b := readFile(t, path)
			if res.Size != v.size || int64(len(b)) != v.size {
				t.Errorf("size: got %d (%d on disk), want %d", res.Size, len(b), v.size)
			}
			if res.MemSum != v.sum || res.FileSum != v.sum {
				t.Errorf("checksum: got 0x%016x and 0x%016x, want 0x%016x", res.MemSum, res.FileSum, v.sum)
			}
			digest := sha256.Sum256(b)
			got := hex.EncodeToString(digest[:])
			if v.sha != "" && got != v.sha {
				t.Errorf("SHA-256: got %s, want %s", got, v.sha)
			}
			if res.SHA256 != got {
				t.Errorf("reported SHA-256: got %s, want %s", res.SHA256, got)
			}
			f := open(t, path, vqf.OpenOptions{FullCheck: true, Strict: true, Expect: v.flags})
			h := f.Header()
			if h.Fields != v.fields || h.Flags != v.flags || h.NTensors != v.n || h.FileLen != v.fileLen || int64(h.DataOffset) != v.dataOffset {
				t.Errorf("header: got %+v", h)
			}
			if h.Arch != miniArch() {
				t.Errorf("arch: got %+v, want %+v", h.Arch, miniArch())
			}
		})
	}
}

// TestHeadersDifferAlone shows that both header variants hold the same bytes
// from the directory on, so that the vectors of one speak for the other.
func TestHeadersDifferAlone(t *testing.T) {
	for _, mode := range []vqf.Mode{vqf.ModeQ4, vqf.ModeQ8, vqf.ModeDual, vqf.ModeQ4I, vqf.ModeG256} {
		old, _ := writeMini(t, miniSpec(mode, 41), nil, nil)
		now, _ := writeMini(t, miniSpec(mode, 45), nil, nil)
		a, b := readFile(t, old), readFile(t, now)
		if !bytes.Equal(a[448:], b[448:]) {
			t.Errorf("%s: the files differ behind the header", mode)
		}
		if !bytes.Equal(a[:180], b[:180]) {
			t.Errorf("%s: the common part of the headers differs", mode)
		}
		if !bytes.Equal(a[184:432], b[200:448]) {
			t.Errorf("%s: the tails differ", mode)
		}
	}
}

// TestVectorBytes compares the bytes that the vectors spell out.
func TestVectorBytes(t *testing.T) {
	path, _ := writeMini(t, miniSpec(vqf.ModeQ4, 45), nil, nil)
	b := readFile(t, path)
	for _, v := range []struct {
		at   int
		want string
	}{
		{0, "4651465702000000230000000e000000"},
		{200, "0010000000000000c04f000000000000"},
		{448, hex.EncodeToString([]byte("token_embed")) + "000000000000000000000000000000000000000000"},
		{480, "050000001000000020000000000000000010000000000000" + "0004000000000000"},
	} {
		want, err := hex.DecodeString(v.want)
		if err != nil {
			t.Fatal(err)
		}
		if got := b[v.at : v.at+len(want)]; !bytes.Equal(got, want) {
			t.Errorf("at %d: got %x, want %x", v.at, got, want)
		}
	}
	f := open(t, path, vqf.OpenOptions{})
	want := []uint64{1024, 128, 256, 256, 256, 256, 2304, 1152, 1152, 2304, 2304, 2304, 2304, 288}
	for i, e := range f.Tensors() {
		if e.Bytes != want[i] {
			t.Errorf("%s: got %d bytes, want %d", e.Name, e.Bytes, want[i])
		}
	}
	last := f.Tensors()[13]
	end := last.Offset + last.Bytes
	if last.Name != "q4_lm" || f.Header().FileLen-end != 32 || !bytes.Equal(b[end:f.Header().FileLen], make([]byte, 32)) {
		t.Errorf("q4_lm ends at %d, file_len is %d", end, f.Header().FileLen)
	}
}

// TestFNVStates checks the checksum alone against known values.
func TestFNVStates(t *testing.T) {
	for s, want := range map[string]uint64{
		"": 0xcbf29ce484222325, "a": 0xaf63dc4c8601ec8c, "foobar": 0x85944171f73967e8,
	} {
		if got := vqf.FNV([]byte(s)); got != want {
			t.Errorf("%q: got 0x%016x, want 0x%016x", s, got, want)
		}
	}
}
