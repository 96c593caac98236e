// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windhover/kernels"
	"windhover/vqf"
	"windhover/vqf/convert"
)

// run converts src into a fresh directory and returns the file's path.
func run(t testing.TB, src string, opt convert.Options) (string, *convert.Report) {
	t.Helper()
	dst := filepath.Join(t.TempDir(), "out.vqf")
	r, err := convert.Run(context.Background(), src, dst, opt, nil)
	if err != nil {
		t.Fatal(err)
	}
	return dst, r
}

// mustFail converts and demands an error of a kind that contains want, and
// that nothing is left where the result would be.
func mustFail(t *testing.T, src string, opt convert.Options, kind error, want string) {
	t.Helper()
	dir := t.TempDir()
	_, err := convert.Run(context.Background(), src, filepath.Join(dir, "out.vqf"), opt, nil)
	if err == nil {
		t.Fatalf("got nil, want an error naming %q", want)
	}
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %q, want one line of %q naming %q", err, kind, want)
	}
	empty(t, dir)
}

func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		t.Errorf("%s is left behind", e.Name())
	}
}

func sha(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// The miniature files of docs/FORMAT.md section 17.6, through the whole way from a Hugging
// Face directory, byte for byte, and with each source type, since all hold the
// same values exactly.
func TestMiniatureFiles(t *testing.T) {
	for _, c := range []struct{ mode, header, sha string }{
		{"q4", "45", "c8b10691de19edd91def03f49541e5c750fce467eef68189fffc2c0c1c1abdb0"},
		{"q8", "45", "4f5b7b6891474d02962c4840b6acbf82d4fb985c35f57dec56de505f9d638624"},
		{"dual", "45", "01e05b7041df2d77a8966d00bfa39078263c8a9008fa76d264a7891bab471b36"},
		{"q4i", "45", "41449fa39933fb0c2cde8f1f013b05e3eecde0b295517e5d3839872a77d1bbdb"},
		{"q4", "41", "98cf2c804440ba9fa56d52d722145d4958d0882b98091b9ed1d8e53d00be101d"},
		{"q4", "auto", "98cf2c804440ba9fa56d52d722145d4958d0882b98091b9ed1d8e53d00be101d"},
	} {
		for _, typ := range []string{"F32", "F16", "BF16"} {
			t.Run(c.mode+" "+c.header+" "+typ, func(t *testing.T) {
				src := miniature.hfDir(t, "qwen3", typ, nil)
				dst, r := run(t, src, convert.Options{Mode: c.mode, Header: c.header, Bare: true})
				if got := sha(readFile(t, dst)); got != c.sha || r.SHA256 != c.sha {
					t.Errorf("got %s, reported %s, want %s", got, r.SHA256, c.sha)
				}
			})
		}
	}
}

// Without a tokenizer in the source the file is the bare one, and says so.
func TestNoTokenizer(t *testing.T) {
	src := miniature.hfDir(t, "qwen3", "F32", nil)
	bare, r := run(t, src, convert.Options{Mode: "q8", Bare: true})
	dst, warned := run(t, src, convert.Options{Mode: "q8"})
	if !bytes.Equal(readFile(t, bare), readFile(t, dst)) {
		t.Error("differs from the bare file")
	}
	if len(r.Notes) != 0 || len(warned.Notes) != 1 || !strings.Contains(warned.Notes[0], "no tokenizer") || warned.Embedded {
		t.Errorf("notes: bare %q, else %q", r.Notes, warned.Notes)
	}
}

// A GGUF file whose tokenizer is "none" has the size of the vocabulary only.
func TestNoTokenizerInGGUF(t *testing.T) {
	mute := miniature
	mute.mute = true
	src := mute.ggufFile(t, "qwen3", "F32", nil)
	dst, warned := run(t, src, convert.Options{Mode: "q8"})
	if len(warned.Notes) != 1 || !strings.Contains(warned.Notes[0], "no tokenizer") || warned.Embedded {
		t.Errorf("notes %q", warned.Notes)
	}
	if f, err := vqf.Open(dst, vqf.OpenOptions{}); err != nil || f.Arch().VocabSize != uint32(mute.vocab) || f.Close() != nil {
		t.Errorf("a file with another vocabulary than %d: %v", mute.vocab, err)
	}
}

// Bytes depend neither on threads nor on pieces: one row, some, all.
func TestDeterministic(t *testing.T) {
	big := mini{dim: 96, layers: 2, heads: 4, kv: 2, hd: 48, ff: 160, vocab: 600, qnorm: true, tied: true}
	src := big.ggufFile(t, "qwen3", "F32", nil)
	for _, c := range []struct{ mode, layout string }{
		{"dual", "8x8"}, {"q8", "4x4"}, {"q8", "row"}, {"q4i", ""}, {"g256", "8x8"}, {"g256", "row"},
	} {
		var want []byte
		for _, w := range []struct{ threads, chunk int }{{1, 0}, {1, 1}, {2, 1}, {7, 3}, {2, 8}, {3, 2048}, {1, 1 << 30}, {7, 1 << 30}} {
			dst, _ := run(t, src, convert.Options{Mode: c.mode, Q8Layout: c.layout, Threads: w.threads, Chunk: w.chunk})
			got := readFile(t, dst)
			if want == nil {
				want = got
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s %s: %d threads, pieces of %d rows give other bytes", c.mode, c.layout, w.threads, w.chunk)
			}
		}
	}
}

// tensorBytes returns the content of every tensor by name, extras left out.
func tensorBytes(t *testing.T, path string) (vqf.Arch, map[string][]byte) {
	t.Helper()
	f, err := vqf.Open(path, vqf.OpenOptions{FullCheck: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string][]byte{}
	for _, w := range f.Tensors() {
		if w.Name == vqf.NameTokenizer || w.Name == vqf.NameMeta {
			continue
		}
		b, err := f.Data(w.Name)
		if err != nil {
			t.Fatal(err)
		}
		out[w.Name] = bytes.Clone(b)
	}
	return f.Arch(), out
}

// sameTensors compares two files tensor by tensor, except those named.
func sameTensors(t *testing.T, a, b string, except ...string) {
	t.Helper()
	_, x := tensorBytes(t, a)
	_, y := tensorBytes(t, b)
	if len(x) != len(y) {
		t.Errorf("%d and %d tensors", len(x), len(y))
	}
	for name := range x {
		differs := !bytes.Equal(x[name], y[name])
		want := false
		for _, e := range except {
			want = want || e == name
		}
		if differs != want {
			t.Errorf("%s differs: %v, want %v", name, differs, want)
		}
	}
}

// A GGUF file and a Hugging Face directory of the same values give the same
// tensors, with the rows of llama's q and k put back.
func TestLossless(t *testing.T) {
	for _, tied := range []bool{false, true} {
		for _, arch := range []string{"qwen3", "llama"} {
			m := mini{dim: 64, layers: 2, heads: 4, kv: 2, hd: 32, ff: 96, vocab: 48, qnorm: arch == "qwen3", tied: tied}
			hf := m.hfDir(t, arch, "BF16", nil)
			for _, typ := range []string{"F32", "F16", "BF16"} {
				file := m.ggufFile(t, arch, typ, nil)
				for _, mode := range []string{"q4", "q8", "dual", "q4i", "g256"} {
					t.Run(fmt.Sprintf("%s %s %s tied=%v", arch, typ, mode, tied), func(t *testing.T) {
						a, r := run(t, hf, convert.Options{Mode: mode})
						b, s := run(t, file, convert.Options{Mode: mode})
						sameTensors(t, a, b)
						if r.Tied != tied || s.Tied != tied || r.Params != s.Params {
							t.Errorf("tied %v, %v, parameters %d, %d", r.Tied, s.Tied, r.Params, s.Params)
						}
					})
				}
			}
		}
	}
}

// Blocks that a reference quantiser made survive being dequantised and
// quantised again, bit for bit.
func TestBlocksKept(t *testing.T) {
	for _, c := range []struct {
		typ, mode, prefix string
		layout            kernels.Layout
	}{{"Q8_0", "q8", "q8_", kernels.Q8x8}, {"Q4_0", "q4", "q4_", kernels.Q4x4}} {
		t.Run(c.typ, func(t *testing.T) {
			dst, r := run(t, miniature.ggufFile(t, "qwen3", c.typ, nil), convert.Options{Mode: c.mode})
			_, got := tensorBytes(t, dst)
			roles := map[int]string{6: "q", 7: "k", 8: "v", 9: "o", 10: "gate", 11: "up", 12: "down", 13: "lm"}
			want := map[string][]byte{}
			for _, w := range miniature.weights() {
				if name, ok := roles[w.t]; ok {
					blocks := encode(c.typ, w.values())
					packed := make([]byte, len(blocks))
					kernels.Repack(packed, blocks, w.rows, w.cols, c.layout)
					want[c.prefix+name] = append(want[c.prefix+name], packed...)
				}
			}
			for name, w := range want {
				if !bytes.Equal(got[name], w) {
					t.Errorf("%s: blocks are not the source's", name)
				}
				if e := r.Errors[name]; e != 0 {
					t.Errorf("%s: error %g reported for blocks that are kept", name, e)
				}
			}
		})
	}
}

// Where a vocabulary or width does not divide into tiles, that family is
// row-major with its flag clear, and the report says so.
func TestGates(t *testing.T) {
	for _, c := range []struct {
		vocab       int
		mode, q8    string
		flags       vqf.Flags
		layout, say string
	}{
		{16, "q8", "", 0x023, "8x8", ""},
		{16, "q8", "4x4", 0x022, "4x4", ""},
		{16, "q8", "row", 0x022, "row", ""},
		{12, "q8", "", 0x022, "row", "q8 is written row-major"},
		{12, "q8", "4x4", 0x022, "4x4", ""},
		{13, "dual", "", 0x020, "row", "q8 is written row-major"},
		{12, "q4", "", 0x023, "", ""},
		{13, "q4", "", 0x021, "", "q4 is written row-major"},
		{16, "q4i", "", 0x02a, "row", ""},
		{16, "g256", "", 0x033, "8x8", ""},
	} {
		m := miniature
		m.vocab = c.vocab
		dst, r := run(t, m.ggufFile(t, "qwen3", "F32", nil), convert.Options{Mode: c.mode, Q8Layout: c.q8})
		name := fmt.Sprintf("vocabulary %d %s %s", c.vocab, c.mode, c.q8)
		if r.Flags != c.flags {
			t.Errorf("%s: flags 0x%03x, want 0x%03x", name, uint32(r.Flags), uint32(c.flags))
		}
		if c.layout != "" && r.Q8Layout != c.layout {
			t.Errorf("%s: layout %s, want %s", name, r.Q8Layout, c.layout)
		}
		if notes := strings.Join(r.Notes, "; "); c.say == "" && notes != "" || !strings.Contains(notes, c.say) {
			t.Errorf("%s: notes %q, want %q", name, notes, c.say)
		}
		// The numbers are the same in every layout.
		f, err := vqf.Open(dst, vqf.OpenOptions{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if f.HasQ8() {
			if l, err := f.Q8Layout(); err != nil || l.String() != c.layout {
				t.Errorf("%s: read back as %s, %v", name, l, err)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOptions(t *testing.T) {
	src := miniature.hfDir(t, "qwen3", "F32", nil)
	for _, c := range []struct {
		opt  convert.Options
		want string
	}{
		{convert.Options{Mode: "q2mix"}, `"q2mix"`},
		{convert.Options{Q8Layout: "16x16"}, `"16x16"`},
		{convert.Options{Header: "43"}, `"43"`},
		{convert.Options{MaxSeq: 1025}, "1025"},
		{convert.Options{MaxSeq: -1}, "max-seq -1: it must not be negative"},
		{convert.Options{Threads: -2}, "threads -2: it must not be negative"},
	} {
		mustFail(t, src, c.opt, convert.ErrOption, c.want)
	}
	t.Run("VLLM_Q8_8X8", func(t *testing.T) {
		for _, c := range []struct{ env, word, want string }{{"0", "", "4x4"}, {"00", "", "4x4"}, {"1", "", "8x8"}, {"", "", "8x8"}, {"0", "8x8", "8x8"}, {"0", "row", "row"}} {
			t.Setenv("VLLM_Q8_8X8", c.env)
			if _, r := run(t, src, convert.Options{Mode: "q8", Q8Layout: c.word}); r.Q8Layout != c.want {
				t.Errorf("%q with %q: got %s, want %s", c.env, c.word, r.Q8Layout, c.want)
			}
		}
	})
	if _, r := run(t, src, convert.Options{}); r.Mode != vqf.ModeQ8 || !r.Auto {
		t.Errorf("auto: got %s, want q8 for a small model", r.Mode)
	}
	if _, r := run(t, src, convert.Options{Bare: true, Name: "mine"}); !strings.Contains(strings.Join(r.Notes, "\n"), `the name "mine" is dropped`) {
		t.Errorf("a name for a bare file: notes %q", r.Notes)
	}
	if _, r := run(t, src, convert.Options{MaxSeq: 100}); r.Arch.MaxSeqLen != 100 || r.Context != 1024 {
		t.Errorf("max-seq 100: got %d of %d", r.Arch.MaxSeqLen, r.Context)
	}
	long := miniature.hfDir(t, "qwen3", "F32", func(c map[string]any, _ map[string][]float32) { c["max_position_embeddings"] = 40960 })
	if _, r := run(t, long, convert.Options{}); r.Arch.MaxSeqLen != 8192 {
		t.Errorf("context 40960: got %d, want 8192", r.Arch.MaxSeqLen)
	}
	if _, r := run(t, long, convert.Options{MaxSeq: 32768}); r.Arch.MaxSeqLen != 32768 {
		t.Errorf("max-seq 32768: got %d", r.Arch.MaxSeqLen)
	}
}

func TestTarget(t *testing.T) {
	src := miniature.ggufFile(t, "qwen3", "F32", nil)
	for _, c := range []struct{ dst, want string }{{filepath.Dir(src), "directory"}, {src, "part of the source"}} {
		if _, err := convert.Run(context.Background(), src, c.dst, convert.Options{}, nil); !errors.Is(err, convert.ErrOption) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.dst, err, c.want)
		}
	}
	if _, err := convert.Run(context.Background(), "absent.gguf", "", convert.Options{}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent source: got %v", err)
	}
	r, err := convert.Run(context.Background(), src, "", convert.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.TrimSuffix(src, ".gguf") + ".vqf"; r.Output != want {
		t.Errorf("default name: got %s, want %s", r.Output, want)
	}
	mustFail(t, r.Output, convert.Options{}, convert.ErrUnsupported, "VQF file already")
	dir := miniature.hfDir(t, "qwen3", "F32", nil)
	for _, name := range []string{"config.json", "model.safetensors"} {
		if _, err := convert.Run(context.Background(), dir, filepath.Join(dir, name), convert.Options{}, nil); !errors.Is(err, convert.ErrOption) {
			t.Errorf("onto its own %s: got %v", name, err)
		}
	}
	if got, want := convert.DefaultOutput(dir), filepath.Join(dir, "model.vqf"); got != want {
		t.Errorf("default name: got %s, want %s", got, want)
	}
}

// A failure in the middle leaves the file that had the name as it was, and no
// temporary one.
func TestFailureLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	dst := filepath.Join(dir, "model.vqf")
	writeFile(t, dst, []byte("what was here"))
	src := miniature.hfDir(t, "qwen3", "F32", func(_ map[string]any, v map[string][]float32) {
		v["lm_head.weight"][100] = float32(1e30)
	})
	if _, err := convert.Run(context.Background(), src, dst, convert.Options{Mode: "q8"}, nil); err == nil {
		t.Fatal("got nil, want an error")
	}
	if got := string(readFile(t, dst)); got != "what was here" {
		t.Errorf("the old file became %q", got)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%d files, %v, want the old one alone", len(entries), err)
	}
}

func TestCancel(t *testing.T) {
	m := mini{dim: 256, layers: 3, heads: 4, kv: 2, hd: 64, ff: 512, vocab: 2048, qnorm: true}
	src := m.ggufFile(t, "qwen3", "F16", nil)
	for _, when := range []int64{0, 1, 40, 90} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(context.Background())
		if when == 0 {
			cancel()
		}
		_, err := convert.Run(ctx, src, filepath.Join(dir, "out.vqf"), convert.Options{Chunk: 8}, func(done, total int64) {
			if when > 0 && done*100 >= when*total/3 {
				cancel()
			}
		})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled at %d%%: got %v", when, err)
		}
		empty(t, dir)
	}
}

// Progress never goes back and ends at its total.
func TestProgress(t *testing.T) {
	src := miniature.ggufFile(t, "qwen3", "F32", nil)
	last, total, calls := int64(0), int64(0), 0
	_, err := convert.Run(context.Background(), src, filepath.Join(t.TempDir(), "out.vqf"), convert.Options{Chunk: 8, Threads: 2}, func(done, all int64) {
		if done < last || done > all || total != 0 && all != total {
			t.Errorf("%d of %d after %d of %d", done, all, last, total)
		}
		last, total = done, all
		calls++
	})
	if err != nil || last != total || calls < 10 {
		t.Errorf("ended at %d of %d after %d calls, %v", last, total, calls, err)
	}
}

func TestReport(t *testing.T) {
	m := miniature
	m.tied = true
	dst, r := run(t, m.ggufFile(t, "qwen3", "BF16", nil), convert.Options{})
	text := r.String()
	for _, want := range []string{
		"GGUF v3", "qwen3 dim=32 layers=2 heads=2 kv=1 hd=32 ff=64 vocab=16 rope_theta=10000 eps=1e-06 q_norm=1 mrope=1 max_seq=1024",
		"q8 (auto)", "to serve: weights", "24 found: 15 BF16, 9 F32", "output.weight absent: tied embeddings\n", "text only: no vision tensors\n",
		"wrote " + dst + ": 16 tensors, ", "flags=0x023", "memsum=" + r.MemSum + " file_sum=" + r.MemSum, " seconds\n",
		"self-check: PASS, flags=0x023 (Q8_8X8|Q4_4X4|EMB_F16)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	if r.MemSum != r.FileSum || len(r.MemSum) != 16 || r.Bytes != int64(len(readFile(t, dst))) {
		t.Errorf("memsum %s, file_sum %s, %d bytes", r.MemSum, r.FileSum, r.Bytes)
	}
	for name, e := range r.Errors {
		if e <= 0 || e > 0.02 {
			t.Errorf("%s: relative error %g of Q8_0", name, e)
		}
	}
	if len(r.Errors) != 8 {
		t.Errorf("errors of %d tensors, want 8", len(r.Errors))
	}
}
