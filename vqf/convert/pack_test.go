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
		r, err := convert.Pack(context.Background(), bare, readWords(t, dir), out, "test 1", nil)
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
	if _, err := convert.Pack(context.Background(), bare, readWords(t, dir), bare, "test 1", nil); err != nil {
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
	}{{"has one", full, convert.ErrOption}, {"damaged", broken, vqf.ErrChecksum}, {"no VQF", filepath.Join(dir, "tokenizer.json"), vqf.ErrFormat}} {
		out := filepath.Join(t.TempDir(), "out.vqf")
		_, err := convert.Pack(context.Background(), c.file, readWords(t, dir), out, "test 1", nil)
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
