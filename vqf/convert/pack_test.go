// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windhover/internal/testmodel"
	"windhover/vqf"
	"windhover/vqf/convert"
	"windhover/vqf/seal"
)

// bareAndWords writes a model without a tokenizer, and tokenizer files in a
// directory of their own.
func bareAndWords(t *testing.T, fields int) (bare, dir string) {
	t.Helper()
	c := testmodel.Default()
	c.Bare, c.Fields = true, fields
	dir = t.TempDir()
	for name, text := range map[string]string{
		"tokenizer.json":         string(testmodel.TokenizerJSON()),
		"tokenizer_config.json":  `{"chat_template":"{{ messages[0].content }}","eos_token":"<|im_end|>"}`,
		"generation_config.json": `{"temperature":0.5,"eos_token_id":[2,0]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return testmodel.Write(t, c), dir
}

func openVQF(t *testing.T, path string) *vqf.File {
	t.Helper()
	f, err := vqf.Open(path, vqf.OpenOptions{FullCheck: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func readWords(t *testing.T, path string) *convert.Words {
	t.Helper()
	w, err := convert.ReadWords(path)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestPackKeepsWeights(t *testing.T) {
	for _, fields := range []int{41, 45} {
		bare, dir := bareAndWords(t, fields)
		out := filepath.Join(t.TempDir(), "packed.vqf")
		r, err := convert.Pack(context.Background(), bare, readWords(t, dir), out, convert.PackOptions{Converter: "test 1"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		before, after := openVQF(t, bare), openVQF(t, out)
		for _, want := range before.Tensors() {
			a, err := before.Data(want.Name)
			if err != nil {
				t.Fatal(err)
			}
			b, err := after.Data(want.Name)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := after.Tensor(want.Name)
			if !bytes.Equal(a, b) || got.Type != want.Type || got.Rows != want.Rows || got.Cols != want.Cols {
				t.Errorf("%d fields: tensor %s changed", fields, want.Name)
			}
		}
		h, g := before.Header(), after.Header()
		if h.Flags != g.Flags || h.Arch != g.Arch || h.Version != g.Version || h.Fields != g.Fields {
			t.Errorf("header %+v, want %+v", g, h)
		}
		if got, want := after.Tokenizer(), testmodel.TokenizerJSON(); !bytes.Equal(got, want) {
			t.Errorf("tokenizer of %d bytes, want %d", len(got), len(want))
		}
		var meta struct {
			Architecture string  `json:"architecture"`
			Mode         string  `json:"mode"`
			Layout       string  `json:"q8_layout"`
			Template     string  `json:"chat_template"`
			StopIDs      []int32 `json:"stop_ids"`
			Quantiser    string  `json:"quantiser"`
			Params       int64   `json:"params"`
			Tied         bool    `json:"tied"`
			Sources      []struct{ SHA256 string }
		}
		if err := json.Unmarshal(after.Meta(), &meta); err != nil {
			t.Fatal(err)
		}
		if meta.Architecture != "qwen3" || meta.Mode != "q8" || meta.Layout != "8x8" || meta.Quantiser != "" ||
			meta.Template != "{{ messages[0].content }}" || len(meta.StopIDs) != 2 || len(meta.Sources) != 3 || strings.Count(meta.Sources[0].SHA256, "0") == 64 {
			t.Errorf("metadata %+v", meta)
		}
		report, err := after.Verify(context.Background(), vqf.VerifyOptions{}, nil)
		if err != nil || report.Err() != nil || report.SHA256 != r.SHA256 {
			t.Errorf("verify: %v, %v, sha256 %s, the report says %s", err, report.Err(), report.SHA256, r.SHA256)
		}
	}
}

func TestPackOntoItself(t *testing.T) {
	bare, dir := bareAndWords(t, 41)
	if _, err := convert.Pack(context.Background(), bare, readWords(t, dir), bare, convert.PackOptions{Converter: "test 1"}, nil); err != nil {
		t.Fatal(err)
	}
	if openVQF(t, bare).Tokenizer() == nil {
		t.Error("there is no tokenizer in the file")
	}
}

func TestPackRefuses(t *testing.T) {
	bare, dir := bareAndWords(t, 41)
	full := testmodel.Write(t, testmodel.Default())
	raw, err := os.ReadFile(bare)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)-100] ^= 1
	broken := filepath.Join(t.TempDir(), "broken.vqf")
	if err := os.WriteFile(broken, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, file string
		want       error
	}{{"has one", full, convert.ErrUnsupported}, {"damaged", broken, vqf.ErrChecksum}, {"no VQF", filepath.Join(dir, "tokenizer.json"), vqf.ErrFormat}} {
		out := filepath.Join(t.TempDir(), "out.vqf")
		_, err := convert.Pack(context.Background(), c.file, readWords(t, dir), out, convert.PackOptions{Converter: "test 1"}, nil)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: there is a file after the error", c.name)
		}
	}
}

func TestReadWords(t *testing.T) {
	bare, dir := bareAndWords(t, 41)
	full := testmodel.Write(t, testmodel.Default())
	other := filepath.Join(t.TempDir(), "other.json")
	if err := os.WriteFile(other, testmodel.TokenizerJSON(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "tokenizer.json"), full, other} {
		if w := readWords(t, path); !bytes.Equal(w.Tokenizer, testmodel.TokenizerJSON()) {
			t.Errorf("%s: not the tokenizer that was written", path)
		}
	}
	for _, path := range []string{bare, t.TempDir()} {
		if _, err := convert.ReadWords(path); !errors.Is(err, convert.ErrSource) {
			t.Errorf("%s: error %v, want one that matches ErrSource", path, err)
		}
	}
}

// What the weights show is filled in: whether the output matrix is the embedding,
// and so how many weights there are.
func TestPackTellsTied(t *testing.T) {
	_, dir := bareAndWords(t, 41)
	for _, mode := range []vqf.Mode{vqf.ModeQ8, vqf.ModeQ4, vqf.ModeDual, vqf.ModeQ4I, vqf.ModeG256} {
		for _, tied := range []bool{false, true} {
			c := testmodel.Default()
			c.Bare, c.Random, c.Mode, c.Tied = true, true, mode, tied
			a := openVQF(t, testmodel.Write(t, c))
			r, err := convert.Pack(t.Context(), a.Path(), readWords(t, dir), filepath.Join(t.TempDir(), "out.vqf"), convert.PackOptions{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			h := a.Arch()
			dim, kv, q, ff := int64(h.Dim), int64(h.KVDim()), int64(h.QDim()), int64(h.FFNDim)
			want := int64(h.VocabSize)*dim + dim + int64(h.NLayers)*(2*dim+2*int64(h.HeadDim)+2*q*dim+2*kv*dim+3*ff*dim)
			if !tied {
				want += int64(h.VocabSize) * dim
			}
			if r.Tied != tied || r.Params != want || r.Quantiser != "" {
				t.Errorf("%s: tied %v, want %v; %d parameters, want %d; quantiser %q", mode, r.Tied, tied, r.Params, want, r.Quantiser)
			}
		}
	}
}

// The metadata of a file of any mode says the layouts that its flags say, the name
// that was asked for, and no word for a quantiser that nobody knows.
func TestPackLayoutsAndName(t *testing.T) {
	_, dir := bareAndWords(t, 41)
	for _, mode := range []vqf.Mode{vqf.ModeQ8, vqf.ModeQ4, vqf.ModeDual, vqf.ModeQ4I, vqf.ModeG256} {
		c := testmodel.Default()
		c.Bare, c.Mode = true, mode
		a := openVQF(t, testmodel.Write(t, c))
		out := filepath.Join(t.TempDir(), "out.vqf")
		if _, err := convert.Pack(t.Context(), a.Path(), readWords(t, dir), out, convert.PackOptions{Name: "mine"}, nil); err != nil {
			t.Fatal(err)
		}
		var meta map[string]any
		if err := json.Unmarshal(openVQF(t, out).Meta(), &meta); err != nil {
			t.Fatal(err)
		}
		q8, q4 := "row", "row"
		if a.Flags()&vqf.FlagQ8x8 != 0 {
			q8 = "8x8"
		}
		if a.Flags()&vqf.FlagQ4x4 != 0 {
			q4 = "4x4"
		}
		quantiser, said := meta["quantiser"]
		if meta["q8_layout"] != q8 || meta["q4_layout"] != q4 || meta["name"] != "mine" || said {
			t.Errorf("%s: q8 %v, want %s; q4 %v, want %s; name %v, quantiser %v", mode, meta["q8_layout"], q8, meta["q4_layout"], q4, meta["name"], quantiser)
		}
	}
}

// A t_meta without a tokenizer is kept where it knows more.
func TestPackKeepsMeta(t *testing.T) {
	bare, dir := bareAndWords(t, 41)
	f := openVQF(t, bare)
	plan := &vqf.Plan{Header: f.Header(), Tensors: f.Tensors()}
	meta := `{"v":1,"name":"old","quantiser":"B+mse","tied":true,"params":7,"sources":[{"file":"weights","bytes":1,"sha256":"00"}],"errors":{"q8_q":0.001}}`
	if err := plan.Add(vqf.Extra{Name: vqf.NameMeta, Size: int64(len(meta))}); err != nil {
		t.Fatal(err)
	}
	with := filepath.Join(t.TempDir(), "with.vqf")
	w, err := vqf.Create(with, plan)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for _, e := range f.Tensors() {
		b, err := f.Data(e.Name)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WriteTensor(e.Name, b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.WriteTensor(vqf.NameMeta, []byte(meta)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out.vqf")
	r, err := convert.Pack(t.Context(), with, readWords(t, dir), out, convert.PackOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Name    string
		Errors  map[string]float64
		Sources []struct{ File string }
	}
	if err := json.Unmarshal(openVQF(t, out).Meta(), &got); err != nil {
		t.Fatal(err)
	}
	if r.Quantiser != "B+mse" || !r.Tied || r.Params != 7 || got.Name != "old" || got.Errors["q8_q"] != 0.001 || len(got.Sources) != 4 || got.Sources[0].File != "weights" {
		t.Errorf("report %+v, metadata %+v", r, got)
	}
}

// A file that is encrypted stays so, one that is signed is signed again or not.
func TestPackSealed(t *testing.T) {
	bare, dir := bareAndWords(t, 41)
	words := readWords(t, dir)
	key, err := seal.KeyFromPassphrase([]byte("correct horse"))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := seal.GenerateSM2()
	if err != nil {
		t.Fatal(err)
	}
	both := filepath.Join(t.TempDir(), "both.vqf")
	if _, err := vqf.Reseal(t.Context(), bare, both, vqf.ResealOptions{To: key, Sign: signer}, nil); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out.vqf")
	if _, err := convert.Pack(t.Context(), both, words, out, convert.PackOptions{DropSignature: true}, nil); !errors.Is(err, vqf.ErrKey) {
		t.Errorf("without the passphrase: %v", err)
	}
	if _, err := convert.Pack(t.Context(), both, words, out, convert.PackOptions{Key: key}, nil); !errors.Is(err, convert.ErrUnsupported) {
		t.Errorf("with a signature that would be lost: %v", err)
	}
	for _, opt := range []convert.PackOptions{{Key: key, DropSignature: true}, {Key: key, Sign: signer}} {
		r, err := convert.Pack(t.Context(), both, words, out, opt, nil)
		if err != nil {
			t.Fatal(err)
		}
		trust := &seal.Trust{SM2: []seal.TrustedSM2{{Name: "maker", Key: signer.Public()}}}
		report, err := vqf.Verify(t.Context(), out, vqf.VerifyOptions{Key: key, Trust: trust}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if signed := opt.Sign != nil; !report.OK() || !report.Encrypted || !r.Encrypted || report.Signature.Trusted != signed || r.Signed != signed {
			t.Errorf("report %+v, verify:\n%s", r, report)
		}
	}
}

// Another VQF file's template, stop tokens and name go along with its tokenizer.
func TestPackWordsOfVQF(t *testing.T) {
	bare, dir := bareAndWords(t, 41)
	first, second := filepath.Join(t.TempDir(), "first.vqf"), filepath.Join(t.TempDir(), "second.vqf")
	if _, err := convert.Pack(t.Context(), bare, readWords(t, dir), first, convert.PackOptions{}, nil); err != nil {
		t.Fatal(err)
	}
	r, err := convert.Pack(t.Context(), bare, readWords(t, first), second, convert.PackOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Template || len(r.StopIDs) != 2 {
		t.Errorf("report %+v", r)
	}
}
