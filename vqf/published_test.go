// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"windhover/vqf"
)

// Shapes of published models.
func qwen3VL2B() vqf.Arch {
	return vqf.Arch{
		Dim: 2048, NLayers: 28, NHeads: 16, NKVHeads: 8, HeadDim: 128, FFNDim: 6144, VocabSize: 151936, MaxSeqLen: 8192,
		RopeTheta: 5e6, NormEps: 1e-6, BosID: 151643, EosID: 151645, HasQNorm: 1, HasMRope: 1, HeadDimFull: 128,
		HasVision: 1, VisDepth: 24, VisHidden: 1024, VisHeads: 16, VisFFN: 4096, VisPatch: 16, VisTemporal: 2, VisMerge: 2,
		VisOutDim: 2048, VisInChan: 3, VisMaxPos: 2304, VisDSCount: 3, MRopeNSec: 3,
		VisDSIdx: [4]int32{5, 11, 17}, MRopeSections: [4]int32{24, 20, 20},
		VisionStartID: 151652, VisionEndID: 151653, ImageTokenID: 151655, VideoTokenID: 151656,
	}
}

func qwen330BA3B() vqf.Arch {
	return vqf.Arch{
		Dim: 2048, NLayers: 48, NHeads: 32, NKVHeads: 4, HeadDim: 128, FFNDim: 128 * 768, VocabSize: 151936, MaxSeqLen: 8192,
		RopeTheta: 1e6, NormEps: 1e-6, BosID: 151643, EosID: 151645, HasQNorm: 1, HeadDimFull: 128,
		NExperts: 128, MoEFFN: 768, TopK: 8,
	}
}

type published struct {
	name   string
	arch   vqf.Arch
	mode   vqf.Mode
	vision bool
	n      int
	flags  vqf.Flags
	size   int64
}

// publishedFiles are sizes that others measured, not results of this code.
func publishedFiles() []published {
	return []published{
		{"2b-q4-vision", qwen3VL2B(), vqf.ModeQ4, true, 41, 0x063, 2331316232},
		{"2b-dual", qwen3VL2B(), vqf.ModeDual, false, 22, 0x023, 3418562568},
		{"2b-dual-vision", qwen3VL2B(), vqf.ModeDual, true, 49, 0x063, 4159295496},
		{"30b-a3b", qwen330BA3B(), vqf.ModeQ4, false, 15, 0x223, 17665601544},
	}
}

func (p published) plan(t testing.TB) *vqf.Plan {
	t.Helper()
	s := specOf(p.arch, p.mode, vqf.Layout8x8, 0)
	s.Vision = p.vision
	plan, err := vqf.NewPlan(s)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// sparse makes a file that has its prefix, its length, and a hole for data. The
// trailer is 0: no checksum.
func sparse(t testing.TB, plan *vqf.Plan) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sparse.vqf")
	if err := os.WriteFile(path, plan.Prefix(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, plan.Size()); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPublishedShapes(t *testing.T) {
	for _, p := range publishedFiles() {
		t.Run(p.name, func(t *testing.T) {
			plan := p.plan(t)
			f := open(t, sparse(t, plan), vqf.OpenOptions{Strict: true, Expect: vqf.FlagQ8x8 | vqf.FlagQ4x4, FullCheck: true})
			h := f.Header()
			if len(f.Tensors()) != p.n || h.Flags != p.flags || f.Size() != p.size || int64(h.FileLen) != p.size-8 {
				t.Errorf("got %d tensors, flags 0x%03x, file_len %d, %d bytes; want %d, 0x%03x, %d, %d",
					len(f.Tensors()), uint32(h.Flags), h.FileLen, f.Size(), p.n, uint32(p.flags), p.size-8, p.size)
			}
			if want := 41; p.arch.MoE() {
				if h.Fields != 45 || h.Version != 3 {
					t.Errorf("got %d fields, version %d, want 45, 3", h.Fields, h.Version)
				}
			} else if h.Fields != want || h.Version != 2 {
				t.Errorf("got %d fields, version %d, want %d, 2", h.Fields, h.Version, want)
			}
			if h.Arch != p.arch || f.HasVision() != p.vision {
				t.Errorf("arch: got %+v, want %+v", h.Arch, p.arch)
			}
		})
	}
}

// TestPublishedDirectory compares the spelled-out parts of the published
// 2B file: header words, first entry, single sizes, sums by group.
func TestPublishedDirectory(t *testing.T) {
	plan := publishedFiles()[0].plan(t)
	b := plan.Prefix()
	for _, v := range []struct {
		at   int
		want string
	}{
		{0, "46514657 02000000 63000000 29000000 00080000 1c000000 10000000 08000000 80000000 00180000 80510200 00200000 8096984a bd378635"},
		{184, "0010000000000000 0010f58a00000000"},
		{448, "746f6b656e5f656d626564 000000000000000000000000000000000000000000 05000000 80510200 00080000 00000000 0010000000000000 0000182500000000"},
		{512, "66696e616c5f6e6f726d"},
	} {
		want, err := hex.DecodeString(strings.ReplaceAll(v.want, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		if got := b[v.at : v.at+len(want)]; !bytes.Equal(got, want) {
			t.Errorf("at %d:\ngot  %x\nwant %x", v.at, got, want)
		}
	}
	for name, want := range map[string]uint64{"q4_lm": 175030272, "v_q8_qkv": 80216064, "attn_norm": 229376} {
		if e, _ := plan.Tensor(name); e.Bytes != want {
			t.Errorf("%s: got %d bytes, want %d", name, e.Bytes, want)
		}
	}
	want := map[string]uint64{
		"embedding": 622329856, "q4_*": 967753728, "v_q8_*": 320864256, "v small F32": 17010688,
		"v_merger_*": 100696064, "v_ds_*": 302161920,
	}
	var total uint64
	for _, g := range vqf.GroupSums(plan.Tensors) {
		if w, ok := want[g.Group]; ok && g.Bytes != w {
			t.Errorf("group %s: got %d, want %d", g.Group, g.Bytes, w)
		}
		delete(want, g.Group)
		total += g.Bytes
	}
	if len(want) != 0 {
		t.Errorf("groups missing: %v", want)
	}
	if got := plan.Header.FileLen - plan.Header.DataOffset; total != got {
		t.Errorf("sum of all bytes: got %d, want the data area's %d", total, got)
	}
}

// TestLoadReadsLittle holds a load of the 2.3 GB file, layouts and embedded
// entries included, to 20 MB of reading: by read calls and by pages that came
// into memory.
func TestLoadReadsLittle(t *testing.T) {
	p := publishedFiles()[0]
	s := specOf(p.arch, p.mode, vqf.Layout8x8, 0)
	s.Vision = true
	s.Extra = []vqf.Extra{{Name: vqf.NameTokenizer, Size: 11 << 20}, {Name: vqf.NameMeta, Size: 64 << 10}}
	plan, err := vqf.NewPlan(s)
	if err != nil {
		t.Fatal(err)
	}
	path := sparse(t, plan)
	before, resident := readChars(t), residentBytes(t, path)
	f, err := vqf.Open(path, vqf.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	if l, err := f.Q4Layout(); err != nil || l != vqf.Layout4x4 {
		t.Errorf("Q4Layout: got %v, %v", l, err)
	}
	f.Tokenizer()
	f.Meta()
	for _, e := range f.Tensors() {
		if _, err := f.Data(e.Name); err != nil {
			t.Error(err)
		}
	}
	read, pages := readChars(t)-before, residentBytes(t, path)-resident
	t.Logf("%d bytes: %d by read calls, %d in pages", f.Size(), read, pages)
	if limit := int64(20e6); read >= limit || pages >= limit {
		t.Errorf("got %d bytes by read calls and %d in pages, want under %d", read, pages, limit)
	}
}

// readChars is what this process has asked read calls for.
func readChars(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skipf("no I/O accounting on this system: %v", err)
	}
	for _, line := range strings.Split(string(b), "\n") {
		if v, ok := strings.CutPrefix(line, "rchar: "); ok {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("/proc/self/io has no rchar")
	return 0
}

// residentBytes is how much of the file is in the page cache.
func residentBytes(t *testing.T, path string) int64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	m, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(m) }()
	page := os.Getpagesize()
	vec := make([]byte, (len(m)+page-1)/page)
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)), uintptr(unsafe.Pointer(&vec[0]))); errno != 0 {
		t.Fatal(errno)
	}
	n := 0
	for _, v := range vec {
		n += int(v & 1)
	}
	return int64(n) * int64(page)
}

// permissions is what /proc says of the mapping that b lies in.
func permissions(t *testing.T, b []byte) string {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skipf("no list of mappings on this system: %v", err)
	}
	at := uint64(uintptr(unsafe.Pointer(&b[0])))
	for _, line := range strings.Split(string(maps), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		lo, err1 := strconv.ParseUint(from, 16, 64)
		hi, err2 := strconv.ParseUint(to, 16, 64)
		if err1 == nil && err2 == nil && lo <= at && at < hi {
			return fields[1]
		}
	}
	t.Fatal("no mapping holds the data")
	return ""
}
