// SPDX-License-Identifier: Apache-2.0

package safetensors_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windhover/vqf/safetensors"
)

// dir writes files (name, content) into a fresh directory.
func dir(t *testing.T, files map[string][]byte) string {
	t.Helper()
	d := t.TempDir()
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(d, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func oneTensor(name string, value float32) []byte {
	b := image(fmt.Sprintf(`{%q:{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, name), 4)
	if value == 1 {
		copy(b[len(b)-4:], []byte{0, 0, 0x80, 0x3f})
	}
	return b
}

const index = "model.safetensors.index.json"

func shard(n, of int) string { return fmt.Sprintf("model-%05d-of-%05d.safetensors", n, of) }

func TestModel(t *testing.T) {
	a, b := oneTensor("a", 0), oneTensor("b", 1)
	for _, c := range []struct {
		name  string
		files map[string][]byte
		want  string // files in shard order
	}{
		{"single", map[string][]byte{"model.safetensors": a}, "model.safetensors"},
		{"numbered", map[string][]byte{shard(2, 2): a, shard(1, 2): b}, shard(1, 2) + " " + shard(2, 2)},
		{"index", map[string][]byte{"y.safetensors": a, "x.safetensors": b,
			index: []byte(`{"metadata":{"total_size":8},"weight_map":{"a":"y.safetensors","b":"x.safetensors"}}`)}, "y.safetensors x.safetensors"},
		{"single beside numbered", map[string][]byte{"model.safetensors": a, shard(1, 2): b}, "model.safetensors"},
		{"index beside single", map[string][]byte{"model.safetensors": a, "x.safetensors": b, index: []byte(`{"weight_map":{"b":"x.safetensors"}}`)}, "x.safetensors"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := safetensors.OpenModel(dir(t, c.files))
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			var got []string
			for _, f := range m.Files() {
				got = append(got, filepath.Base(f.Path()))
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("files: got %s, want %s", s, c.want)
			}
			for _, w := range m.Tensors() {
				var v [1]float32
				if err := m.ReadFloats(v[:], w, 0); err != nil {
					t.Error(err)
				}
				if want := map[string]float32{"a": 0, "b": 1}[w.Name]; v[0] != want {
					t.Errorf("%s: got %v, want %v", w.Name, v[0], want)
				}
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestModelRefuses(t *testing.T) {
	a, b := oneTensor("a", 0), oneTensor("b", 1)
	weightMap := func(s string) []byte { return []byte(`{"weight_map":` + s + `}`) }
	for _, c := range []struct {
		name, want string
		files      map[string][]byte
	}{
		{"nothing", "neither", map[string][]byte{"pytorch_model.bin": nil}},
		{"shard missing", shard(2, 3), map[string][]byte{shard(1, 3): a, shard(3, 3): b}},
		{"two sets", "side by side", map[string][]byte{shard(1, 3): a, shard(1, 2): b}},
		{"shard 0", "no such shard", map[string][]byte{shard(0, 2): a}},
		{"tensor twice", `tensor "a"`, map[string][]byte{shard(1, 2): a, shard(2, 2): a}},
		{"index names absent file", "x.safetensors", map[string][]byte{index: weightMap(`{"a":"x.safetensors"}`)}},
		{"index names wrong file", `tensor "b"`, map[string][]byte{"x.safetensors": a, "y.safetensors": b, index: weightMap(`{"a":"x.safetensors","b":"x.safetensors"}`)}},
		{"index twice", "duplicate", map[string][]byte{"x.safetensors": a, index: weightMap(`{"a":"x.safetensors","a":"x.safetensors"}`)}},
		{"index up", "beside the index", map[string][]byte{index: weightMap(`{"a":"../x.safetensors"}`)}},
		{"index hidden", "beside the index", map[string][]byte{index: weightMap(`{"a":".safetensors"}`)}},
		{"index of numbers", "header", map[string][]byte{index: weightMap(`{"a":1}`)}},
		{"index empty", "weight_map", map[string][]byte{index: []byte(`{}`)}},
		{"index cut", "ends early", map[string][]byte{index: []byte(`{"weight_map":{"a":"x.safetensors"`)}},
		{"index of two maps", "twice", map[string][]byte{index: []byte(`{"weight_map":{"a":"x.safetensors"},"weight_map":{}}`)}},
		{"bad shard", "header length", map[string][]byte{"model.safetensors": image("{}", 0)[:9]}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := dir(t, c.files)
			_, err := safetensors.OpenModel(d)
			if err == nil {
				t.Fatal("got nil, want an error")
			}
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), d) {
				t.Errorf("got %q, want the path and %q", err, c.want)
			}
			if !errors.Is(err, safetensors.ErrFormat) && !errors.Is(err, os.ErrNotExist) && c.name != "two sets" && c.name != "shard 0" {
				t.Errorf("%v matches no sentinel", err)
			}
		})
	}
}

// The shared models open, and the sharded one holds what the single one does.
func TestSharedModels(t *testing.T) {
	root := filepath.FromSlash("../../../shared/golden/models")
	if _, err := os.Stat(root); err != nil {
		t.Skip("no ../shared/golden beside the module")
	}
	one, err := safetensors.OpenModel(filepath.Join(root, "qwen3-tiny"))
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	three, err := safetensors.OpenModel(filepath.Join(root, "qwen3-tiny-sharded"))
	if err != nil {
		t.Fatal(err)
	}
	defer three.Close()
	if got, want := len(three.Tensors()), len(one.Tensors()); got != want || len(three.Files()) != 3 {
		t.Errorf("%d tensors in %d files, want %d in 3", got, len(three.Files()), want)
	}
	for _, w := range one.Tensors() {
		v, ok := three.Tensor(w.Name)
		if !ok || v.DType != w.DType || v.Bytes != w.Bytes {
			t.Errorf("%s: %s %d bytes, want %s %d", w.Name, v.DType, v.Bytes, w.DType, w.Bytes)
			continue
		}
		x, y := make([]float32, w.Values()), make([]float32, w.Values())
		if err := errors.Join(one.ReadFloats(x, w, 0), three.ReadFloats(y, v, 0)); err != nil {
			t.Fatal(err)
		}
		for i := range x {
			if x[i] != y[i] {
				t.Fatalf("%s: value %d is %v, want %v", w.Name, i, y[i], x[i])
			}
		}
	}
}
