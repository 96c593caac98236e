// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every stack of experts of the golden files, in every type, holds the values
// that reference code dequantises: cut into experts again, its digest is the
// golden one.
func TestSharedStacks(t *testing.T) {
	root := filepath.FromSlash("../../../shared/golden/gguf/qwen3moe-h256")
	b, err := os.ReadFile(filepath.Join(root, "golden.json"))
	if os.IsNotExist(err) {
		t.Skip("no ../shared/golden beside the module")
	}
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Files map[string]struct {
			Tensors map[string]struct {
				SHA string `json:"sha256_f32"`
			} `json:"tensors"`
		} `json:"files"`
	}
	if err := json.Unmarshal(b, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Files) < 10 {
		t.Fatalf("%d files in golden.json", len(golden.Files))
	}
	for name, file := range golden.Files {
		set, err := Options{}.resolve()
		if err != nil {
			t.Fatal(err)
		}
		s, err := open(filepath.Join(root, name), set)
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.bind()
		if err != nil {
			t.Fatal(err)
		}
		for l := range int(s.arch.NLayers) {
			for _, r := range append([]string{"moe_router"}, expertRoles...) {
				x := m.parts[r][l]
				values := make([]float32, x.rows*x.cols)
				// In two goes, so that one begins inside a slab.
				first := x.rows/2 + 1
				if err := x.readRows(values[:first*x.cols], 0, first); err != nil {
					t.Fatal(err)
				}
				if err := x.readRows(values[first*x.cols:], first, x.rows-first); err != nil {
					t.Fatal(err)
				}
				h := sha256.New()
				buf := make([]byte, 4*x.width)
				for e := range x.cols / x.width {
					for row := range x.rows {
						putF32(buf, values[row*x.cols+e*x.width:][:x.width])
						h.Write(buf)
					}
				}
				tensor := fmt.Sprintf("blk.%d.ffn_%s_exps.weight", l, r)
				if r == "moe_router" {
					tensor = fmt.Sprintf("blk.%d.ffn_gate_inp.weight", l)
				}
				if got, want := hex.EncodeToString(h.Sum(nil)), file.Tensors[tensor].SHA; got != want {
					t.Errorf("%s: %s: digest %s, want %s", name, tensor, got, want)
				}
			}
		}
		if err := s.closer.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A grid of slabs is read by rows as if it were one matrix, wherever the rows
// begin, and each element is named as its own tensor counts.
func TestSlabs(t *testing.T) {
	make1 := func(name string, base float32) *tensor {
		return &tensor{name: name, read: func(dst []float32, first uint64) error {
			for i := range dst {
				dst[i] = base + float32(first) + float32(i)
			}
			return nil
		}}
	}
	a, b := make1("a", 0), make1("b", 1000)
	for _, c := range []struct {
		name string
		x    matrix
		want []float32
	}{
		{"beside", matrix{rows: 2, cols: 6, height: 2, width: 3, slabs: []slab{{a, 0}, {b, 2}}}, []float32{0, 1, 2, 1006, 1007, 1008, 3, 4, 5, 1009, 1010, 1011}},
		{"under", matrix{rows: 4, cols: 2, height: 2, width: 2, slabs: []slab{{a, 1}, {b, 0}}}, []float32{2, 3, 4, 5, 1000, 1001, 1002, 1003}},
		{"padded", matrix{rows: 2, cols: 4, height: 2, width: 3, slabs: []slab{{a, 0}}}, []float32{0, 1, 2, 0, 3, 4, 5, 0}},
	} {
		for first := range c.x.rows {
			for n := 1; first+n <= c.x.rows; n++ {
				got := make([]float32, n*c.x.cols)
				for i := range got {
					got[i] = -1
				}
				if err := c.x.readRows(got, first, n); err != nil {
					t.Fatal(err)
				}
				if want := c.want[first*c.x.cols:][:len(got)]; fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s: rows %d+%d: got %v, want %v", c.name, first, n, got, want)
				}
			}
		}
	}
	x := matrix{rows: 2, cols: 6, height: 2, width: 3, slabs: []slab{{a, 0}, {b, 2}}}
	if got := x.where(1, 4); !strings.Contains(got, `"b": element 10 (row 3, column 1)`) {
		t.Errorf("got %s", got)
	}
}

// With many experts a piece has enough rows for reads of a sensible length,
// and stays bounded.
func TestGatherRows(t *testing.T) {
	x := matrix{rows: 2048, cols: 128 * 768, height: 2048, width: 768, slabs: make([]slab, 128)}
	p := &pipeline{threads: 2}
	rows := p.rowsOf(&x, &encoding{unit: 8})
	if rows*x.width < gatherValues || rows*x.cols > largestPiece+8*x.cols {
		t.Errorf("%d rows a piece: %d values a read, %d values", rows, rows*x.width, rows*x.cols)
	}
}
