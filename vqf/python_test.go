// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"windhover/vqf"
	"windhover/vqf/seal"
)

// pyResult is what scripts/parse_vqf.py --json prints of a file.
type pyResult struct {
	OK         bool   `json:"ok"`
	Size       int64  `json:"size"`
	Version    uint32 `json:"version"`
	Flags      uint32 `json:"flags"`
	Header     int    `json:"header"`
	DataOffset uint64 `json:"data_offset"`
	FileLen    uint64 `json:"file_len"`
	Arch       vqf.Arch
	Tensors    []struct {
		Name, Type    string
		Rows, Cols    uint32
		Offset, Bytes uint64
	}
	Groups map[string]struct{ Bytes uint64 }
	Checks []struct {
		Name   string
		OK     bool
		Detail string
	}
}

// python runs the stand-alone parser, and skips the test without Python.
func python(t *testing.T, args ...string) (out string, status int) {
	t.Helper()
	py, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	cmd := exec.Command(py, append([]string{"../scripts/parse_vqf.py"}, args...)...)
	b, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil && len(exit.Stderr) > 0 {
		t.Fatalf("%s", exit.Stderr)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// TestPythonAgrees lets the independent parser read our files, both headers,
// real shapes too.
func TestPythonAgrees(t *testing.T) {
	var paths []string
	for _, mode := range []vqf.Mode{vqf.ModeQ4, vqf.ModeQ8, vqf.ModeDual, vqf.ModeQ4I} {
		for _, fields := range []int{41, 45} {
			path, _ := writeMini(t, miniSpec(mode, fields), nil, map[string]string{vqf.NameMeta: "{}"})
			paths = append(paths, path)
		}
	}
	for _, p := range publishedFiles() {
		paths = append(paths, sparse(t, p.plan(t)))
	}
	out, status := python(t, append([]string{"--json"}, paths...)...)
	var got []pyResult
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != len(paths) {
		t.Fatalf("%d results, %v:\n%.500s", len(got), err, out)
	}
	if status != 0 {
		t.Errorf("exit status %d", status)
	}
	for i, path := range paths {
		f, r := open(t, path, vqf.OpenOptions{}), got[i]
		h := f.Header()
		if !r.OK || len(r.Checks) != 8 {
			t.Errorf("%s: %+v", path, r.Checks)
		}
		if r.Size != f.Size() || r.Version != h.Version || r.Flags != uint32(h.Flags) || r.Header != h.Fields || r.DataOffset != h.DataOffset || r.FileLen != h.FileLen {
			t.Errorf("%s: got %+v, want %+v", path, r, h)
		}
		if r.Arch != h.Arch {
			t.Errorf("%s: arch: got %+v, want %+v", path, r.Arch, h.Arch)
		}
		for j, e := range f.Tensors() {
			if p := r.Tensors[j]; p.Name != e.Name || p.Type != e.Type.String() || p.Rows != e.Rows || p.Cols != e.Cols || p.Offset != e.Offset || p.Bytes != e.Bytes {
				t.Errorf("%s: got %+v, want %+v", path, p, e)
			}
		}
		for _, g := range vqf.GroupSums(f.Tensors()) {
			if r.Groups[g.Group].Bytes != g.Bytes {
				t.Errorf("%s: group %s: got %d, want %d", path, g.Group, r.Groups[g.Group].Bytes, g.Bytes)
			}
		}
	}
}

// TestPythonText reads what a person reads, and the checksum.
func TestPythonText(t *testing.T) {
	path, res := writeMini(t, miniSpec(vqf.ModeQ4, 45), nil, nil)
	out, status := python(t, "--checksum", path)
	for _, want := range []string{
		"flags 0x023 Q8_8X8|Q4_4X4|EMB_F16", "dim              32", "rope_theta       10000",
		"PASS: offsets are multiples of 64", "PASS: first offset = data_offset: 4096", "PASS: each offset = rounded end before",
		"PASS: last rounded end = file_len: 20416", "PASS: bytes by formula", "PASS: size = file_len + trailer: 20416 + 8 = 20424",
		fmt.Sprintf("PASS: checksum: stored 0x%016x, computed 0x%016x", res.FileSum, res.FileSum),
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if status != 0 || strings.Contains(out, "FAIL") {
		t.Errorf("exit status %d:\n%s", status, out)
	}
}

// TestPythonSealed: encrypted and signed files of both headers are taken apart,
// and shown as such; broken blocks are not.
func TestPythonSealed(t *testing.T) {
	var paths []string
	for _, fields := range []int{41, 45} {
		_, b := sealedMini(t, vqf.ModeQ4, fields, sealing{vectorKey(t), vectorIV(), seal.IDKestrel}, nil)
		paths = append(paths, tempFile(t, b))
	}
	out, status := python(t, paths...)
	for _, want := range []string{
		"flags 0x1a3 Q8_8X8|Q4_4X4|EMB_F16|ENC|SIGNED", "45-field header", "41-field header",
		"trailer 32 bytes e32af34768fea00aece95301ac34aee92984a38565708db3adc1c19dcda24192",
		"encrypted: enc_iv 000102030405060708090a0b0c0d0e0f; the tag is not checked here",
		"signed: id vllm-kestrel-vqf, public key 852611f744af0456", "digest 6c789e5ac805a2b98be917f0556e848764476de3d38f0f27ab5c2fe19199d74d",
		"PASS: size = file_len + trailer: 20416 + 32 = 20448",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if status != 0 || strings.Contains(out, "FAIL") {
		t.Errorf("exit status %d:\n%s", status, out)
	}
	plain, b := sealedMini(t, vqf.ModeQ4, 45, sealing{vectorKey(t), vectorIV(), seal.IDShs}, nil)
	plain[216], b[248+192] = 1, 33
	out, status = python(t, tempFile(t, plain), tempFile(t, b))
	if status != 1 || !strings.Contains(out, "enc_iv is set, but the ENC flag is not") || !strings.Contains(out, "the signature block is malformed") {
		t.Errorf("exit status %d:\n%s", status, out)
	}
}

// TestPythonFails: damage is a FAIL line and exit status 1.
func TestPythonFails(t *testing.T) {
	path, _ := writeMini(t, miniSpec(vqf.ModeQ4, 41), nil, nil)
	good := readFile(t, path)
	cases := []struct {
		name string
		edit func(b []byte) []byte
		want string
	}{
		{"empty", func(b []byte) []byte { return nil }, "FAIL: structure: 0 bytes are too few"},
		{"magic", func(b []byte) []byte { b[0] = 'V'; return b }, "FAIL: structure: magic"},
		{"version", func(b []byte) []byte { b[4] = 1; return b }, "FAIL: structure: version 1"},
		{"short", func(b []byte) []byte { return b[:len(b)-1] }, "FAIL: structure: header layout undetermined"},
		{"offset", func(b []byte) []byte { b[448+64*3+48]++; return b }, "FAIL: offsets are multiples of 64: ffn_norm"},
		{"chain", func(b []byte) []byte { b[448+64*3+48] += 64; return b }, "FAIL: each offset = rounded end before: ffn_norm"},
		{"bytes", func(b []byte) []byte { b[448+64*3+56]--; return b }, "FAIL: bytes by formula: ffn_norm"},
		{"first", func(b []byte) []byte { b[448+48] = 64; return b }, "FAIL: first offset = data_offset"},
		{"last", func(b []byte) []byte { b[448+64*13+57]++; return b }, "FAIL: last rounded end = file_len"},
		{"arch", func(b []byte) []byte { b[20] = 3; return b }, "FAIL: group sums as the architecture gives: norms"},
		{"twice", func(b []byte) []byte { copy(b[448+64*3:448+64*3+32], b[448+64*2:]); return b }, "FAIL: names are there once: attn_norm"},
		{"checksum", func(b []byte) []byte { b[5000]++; return b }, "FAIL: checksum"},
	}
	// One run for all: starting Python is the slow part.
	args := []string{"--checksum", path + ".none"}
	for _, c := range cases {
		args = append(args, tempFile(t, c.edit(append([]byte(nil), good...))))
	}
	out, status := python(t, args...)
	if status != 1 {
		t.Errorf("exit status %d", status)
	}
	of := map[string]string{} // report by file
	for _, part := range strings.Split("\n"+out, "\n/") {
		name, report, _ := strings.Cut("/"+part, ": ")
		of[name] = report
	}
	for i, c := range cases {
		if got := of[args[2+i]]; !strings.Contains(got, c.want) {
			t.Errorf("%s: no %q in:\n%s", c.name, c.want, got)
		}
	}
	if got := of[args[1]]; !strings.Contains(got, "FAIL: read: No such file") {
		t.Errorf("missing file:\n%s", got)
	}
}
