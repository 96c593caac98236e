// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"windhover/vqf/gguf"
)

// Limits of importance files. The largest known, of a model with 256 experts of
// 61 layers, has some 300 MB.
const (
	maxImatrixBytes  = 1 << 30
	maxImatrixLayers = 1024
	maxImatrixNames  = 65536
	maxImatrixName   = 255
)

// imatrixRoles are the matrices by llama.cpp's names, without "blk.N.".
var imatrixRoles = map[string][]string{
	"attn_q.weight":           {"q"},
	"attn_k.weight":           {"k"},
	"attn_v.weight":           {"v"},
	"attn_output.weight":      {"o"},
	"ffn_gate.weight":         {"gate"},
	"ffn_up.weight":           {"up"},
	"ffn_down.weight":         {"down"},
	"ffn_gate_exps.weight":    {"gate"},
	"ffn_up_exps.weight":      {"up"},
	"ffn_gate_up_exps.weight": {"gate", "up"},
	"ffn_down_exps.weight":    {"down"},
}

// imatrixPart finds what a name stands for; no roles for a matrix that is not
// made of four bits here.
func imatrixPart(name string) (roles []string, layer int) {
	if name == "output.weight" {
		return []string{"lm"}, 0
	}
	rest, ok := strings.CutPrefix(name, "blk.")
	if !ok {
		return nil, 0
	}
	number, rest, _ := strings.Cut(rest, ".")
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n >= maxImatrixLayers || strconv.FormatUint(n, 10) != number {
		return nil, 0
	}
	return imatrixRoles[rest], int(n)
}

// ReadImatrix reads an importance matrix of llama.cpp, in its older form (.dat)
// or as GGUF. Matrices of other kinds than those of docs/FORMAT.md section 5.1
// are passed over. Errors match [ErrSource], or are the system's.
func ReadImatrix(path string) (*Importance, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	i, err := readImatrix(f, filepath.Base(path))
	if cerr := f.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("convert: %w", cerr)
	}
	return i, err
}

func readImatrix(f *os.File, name string) (*Importance, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	switch {
	case !st.Mode().IsRegular():
		return nil, faulty("%s is not a regular file", name)
	case st.Size() > maxImatrixBytes:
		return nil, faulty("%s has %d bytes: no importance matrix is larger than %d", name, st.Size(), maxImatrixBytes)
	}
	return parseImatrix(f, st.Size(), name)
}

// parseImatrix reads size bytes of r; name is for messages.
func parseImatrix(r io.ReaderAt, size int64, name string) (*Importance, error) {
	i := NewImportance("importance matrix " + name)
	var magic [4]byte
	var err error
	if n, _ := r.ReadAt(magic[:], 0); n == len(magic) && string(magic[:]) == "GGUF" {
		err = i.readGGUF(r, size)
	} else {
		err = i.readDat(r, size)
	}
	if err == nil && len(i.parts) == 0 {
		err = errors.New("it names no matrix of a model")
	}
	if err != nil {
		return nil, &failure{kind: ErrSource, msg: name, err: err}
	}
	return i, nil
}

// add takes the sums of a matrix's columns; of their size only ratios matter.
func (i *Importance) add(name string, columns []float32) error {
	for c, v := range columns {
		if !(v >= 0) || v > math.MaxFloat32 {
			return fmt.Errorf("%q: column %d has importance %v: no mean of squares", name, c, v)
		}
	}
	roles, layer := imatrixPart(name)
	in := &inputs{columns: columns}
	for _, r := range roles {
		if !i.put(r, layer, in) {
			return fmt.Errorf("%q: there twice", name)
		}
	}
	return nil
}

// readGGUF reads NAME.in_sum2, [experts][columns] sums of squares, and
// NAME.counts, [experts] how many rows were summed.
func (i *Importance) readGGUF(r io.ReaderAt, size int64) error {
	f, err := gguf.New(r, size)
	if err != nil {
		return err
	}
	if kind, err := f.Text("general.type"); err != nil || kind != "imatrix" {
		return fmt.Errorf("a GGUF file of type %q, want \"imatrix\"", kind)
	}
	for _, t := range f.Tensors() {
		name, ok := strings.CutSuffix(t.Name, ".in_sum2")
		if !ok {
			continue
		}
		if roles, _ := imatrixPart(name); roles == nil {
			continue
		}
		counts, ok := f.Tensor(name + ".counts")
		if !ok || t.Type != gguf.F32 || counts.Type != gguf.F32 || counts.Values() != t.Rows() {
			return fmt.Errorf("%q: in_sum2 %v needs F32, and counts of %d rows", name, t.Dims, t.Rows())
		}
		// Both lie within the file, whose size is bounded.
		columns, n := make([]float32, t.Values()), make([]float32, counts.Values())
		if err := f.ReadFloats(columns, t, 0); err != nil {
			return err
		}
		if err := f.ReadFloats(n, counts, 0); err != nil {
			return err
		}
		width := int(t.Cols())
		for e, count := range n {
			if !(count >= 0) {
				return fmt.Errorf("%q: count %v", name, count)
			}
			for c := range width {
				if v := &columns[e*width+c]; count > 0 {
					*v /= count
				} else {
					*v = 0 // an expert that saw nothing
				}
			}
		}
		if err := i.add(name, columns); err != nil {
			return err
		}
	}
	return nil
}

// datReader reads the older form: a count of entries; for each the length of a
// name, the name, a number of passes, a count of values, values. What follows
// the entries is about how they were made.
type datReader struct {
	r    io.ReaderAt
	at   int64
	size int64
}

func (d *datReader) next(n int64) ([]byte, error) {
	if n > d.size-d.at {
		return nil, fmt.Errorf("offset %d: %d bytes are wanted, the file ends after %d", d.at, n, d.size-d.at)
	}
	b := make([]byte, n)
	if got, err := d.r.ReadAt(b, d.at); got < len(b) {
		return nil, fmt.Errorf("offset %d: %w", d.at, err)
	}
	d.at += n
	return b, nil
}

// number reads an int32 that must lie between 1 and most.
func (d *datReader) number(what string, most int64) (int64, error) {
	b, err := d.next(4)
	if err != nil {
		return 0, err
	}
	n := int64(int32(binary.LittleEndian.Uint32(b)))
	if n < 1 || n > most {
		return 0, fmt.Errorf("offset %d: %s %d, want 1 to %d: not an importance matrix", d.at-4, what, n, most)
	}
	return n, nil
}

func (i *Importance) readDat(r io.ReaderAt, size int64) error {
	d := &datReader{r: r, size: size}
	n, err := d.number("number of matrices", maxImatrixNames)
	if err != nil {
		return err
	}
	for range n {
		length, err := d.number("length of a name", maxImatrixName)
		if err != nil {
			return err
		}
		b, err := d.next(length)
		if err != nil {
			return err
		}
		name := string(b)
		if _, err := d.next(4); err != nil { // passes: every value has the same
			return err
		}
		count, err := d.number("number of values", maxImatrixBytes/4)
		if err != nil {
			return err
		}
		roles, _ := imatrixPart(name)
		if roles == nil {
			if d.at += 4 * count; d.at > size {
				return fmt.Errorf("%q: %d values run past the end of the file", name, count)
			}
			continue
		}
		if b, err = d.next(4 * count); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		columns := make([]float32, count)
		for c := range columns {
			columns[c] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*c:]))
		}
		if err := i.add(name, columns); err != nil {
			return err
		}
	}
	return nil
}
