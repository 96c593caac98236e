// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"windhover/internal/testmodel"
	"windhover/vqf"
)

// tinyModel is the bytes of a small self-contained model.
func tinyModel(t *testing.T, change func(*testmodel.Config)) []byte {
	t.Helper()
	c := testmodel.Default()
	if change != nil {
		change(&c)
	}
	data, err := os.ReadFile(testmodel.Write(t, c))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func writeBytes(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestLook(t *testing.T) {
	drop := t.TempDir()
	for _, name := range []string{
		"a.vqf", ".hidden.vqf", "b.vqf.part", "c.vqf.tmp", "d.vqf~", "e.vqf.filepart", "notes.txt", "a.vqf.ready",
		"dir/model.vqf", "dir/tokenizer.json", "second/vllm.vqf", "both/weights.vqf", "both/vllm.vqf", "empty/readme", ".d/model.vqf",
		"bad name.vqf", "same.vqf", "same/model.vqf", "held.vqf", "held.vqf.skip",
	} {
		write(t, filepath.Join(drop, name), "x")
	}
	if err := os.Symlink("a.vqf", filepath.Join(drop, "link.vqf")); err != nil {
		t.Fatal(err)
	}
	v, err := look(drop, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	found, refused := v.Found, v.Refused
	var got []string
	for _, c := range found {
		s := c.Name + "=" + strings.TrimPrefix(c.Weights, drop+"/")
		if len(c.Side) > 0 {
			s += "+" + filepath.Base(c.Side[0])
		}
		if c.Skip {
			s += " skip"
		}
		got = append(got, s)
	}
	want := []string{"a=a.vqf", "both=both/weights.vqf", "dir=dir/model.vqf+tokenizer.json", "held=held.vqf skip", "same=same/model.vqf", "second=second/vllm.vqf"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if len(refused) != 2 || refused["bad name.vqf"] == "" || !strings.Contains(refused["same.vqf"], "taken by same") {
		t.Errorf("refused: got %q", refused)
	}
}

func TestComplete_P137(t *testing.T) {
	whole := tinyModel(t, nil)
	dir := t.TempDir()
	path := filepath.Join(dir, "m.vqf")
	tests := []struct {
		name     string
		data     []byte
		complete bool
		failed   bool
		want     int64
	}{
		{"empty", nil, false, false, 0},
		{"part of a header", whole[:100], false, false, 0},
		{"fewer bytes than tell what it is", whole[:3], false, false, 0},
		{"short, and no header", []byte("404"), false, false, 0},
		{"short, and no part of one", []byte("404 page not found"), false, true, 0},
		{"a pointer", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"), false, true, 0},
		{"header only", whole[:448], false, false, int64(len(whole))},
		{"one byte short", whole[:len(whole)-1], false, false, int64(len(whole))},
		{"whole", whole, true, false, int64(len(whole))},
		{"one byte long", append(slices.Clone(whole), 0), false, true, int64(len(whole))},
		{"no VQF", []byte(strings.Repeat("hello ", 200)), false, true, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			writeBytes(t, path, tt.data)
			got := weightsArrived(path, 0)
			if got.Complete != tt.complete || (got.Err != nil) != tt.failed || got.Want != tt.want || got.Have != int64(len(tt.data)) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// A file that has its full length may still be written to: only the lease tells.
func TestCompleteWaitsForWriter_P66(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.vqf")
	writeBytes(t, path, tinyModel(t, nil))
	w, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := weightsArrived(path, 0); got.Complete || got.Err != nil {
		t.Errorf("with a writer: got %+v", got)
	}
	// A writable mapping holds it as well, its descriptor closed.
	m, err := unix.Mmap(int(w.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := weightsArrived(path, 0); got.Complete || got.Err != nil {
		t.Errorf("with a writable mapping: got %+v", got)
	}
	if err := unix.Munmap(m); err != nil {
		t.Fatal(err)
	}
	if got := weightsArrived(path, 0); !got.Complete {
		t.Errorf("after the last writer: got %+v", got)
	}
	// A hard link elsewhere with a writer is the same file.
	other := filepath.Join(t.TempDir(), "elsewhere.vqf")
	if err := os.Link(path, other); err != nil {
		t.Skip("no hard links between temporary directories:", err)
	}
	w, err = os.OpenFile(other, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := weightsArrived(path, 0); got.Complete {
		t.Errorf("with a writer on another link: got %+v", got)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// readMarker reads a marker file; ok is false when there is none.
func readMarker(t *testing.T, path string) (doc markerDoc, ok bool) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		return doc, false
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return doc, true
}

// embeddedTokenizer is the tokenizer.json inside a self-contained model.
func embeddedTokenizer(t *testing.T, model []byte) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.vqf")
	writeBytes(t, path, model)
	f, err := vqf.Open(path, vqf.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	return f.Tokenizer()
}
