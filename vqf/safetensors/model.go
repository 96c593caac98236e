// SPDX-License-Identifier: Apache-2.0

package safetensors

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Names of the files that hold a model, in the order they are looked for.
const (
	indexName  = "model.safetensors.index.json"
	singleName = "model.safetensors"
)

const (
	maxShards = 1024
	maxIndex  = 100_000_000 // bytes of the index
)

// Model is the tensors of a directory: of one file or of all its shards. Its
// methods may be called concurrently.
type Model struct {
	files   []*File
	tensors []Tensor // of all shards, in shard order
	index   map[string]int
}

// OpenModel opens the weights in dir: the shards that
// model.safetensors.index.json names, else model.safetensors, else
// model-NNNNN-of-NNNNN.safetensors complete from 1 to N.
func OpenModel(dir string) (*Model, error) {
	names, weightMap, err := shards(dir)
	if err != nil {
		return nil, err
	}
	m := &Model{index: map[string]int{}}
	for _, name := range names {
		if err := m.add(filepath.Join(dir, name)); err != nil {
			m.Close() // nothing was written: only the first error matters
			return nil, err
		}
	}
	for _, w := range weightMap {
		i, ok := m.index[w.tensor]
		if !ok || filepath.Base(m.files[m.tensors[i].shard].path) != w.file {
			m.Close() // as above
			return nil, &FormatError{Path: filepath.Join(dir, indexName), Field: "tensor " + strconv.Quote(w.tensor), Offset: -1,
				Msg: "is not in " + w.file + ", where the index has it"}
		}
	}
	return m, nil
}

// add opens one shard. A tensor that two shards hold is an error: which one is
// meant would depend on the reader.
func (m *Model) add(path string) error {
	f, err := Open(path)
	if err != nil {
		return err
	}
	shard := len(m.files)
	m.files = append(m.files, f)
	for _, t := range f.tensors {
		if i, dup := m.index[t.Name]; dup {
			return &FormatError{Path: path, Field: "tensor " + strconv.Quote(t.Name), Offset: t.Offset,
				Msg: "is in " + filepath.Base(m.files[m.tensors[i].shard].path) + " too"}
		}
		t.shard = shard
		m.index[t.Name] = len(m.tensors)
		m.tensors = append(m.tensors, t)
	}
	return nil
}

// Close releases the files; it is idempotent.
func (m *Model) Close() error {
	errs := make([]error, 0, len(m.files))
	for _, f := range m.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// Files returns the open files in shard order.
func (m *Model) Files() []*File { return slices.Clone(m.files) }

// Tensors returns the entries of all files in shard order.
func (m *Model) Tensors() []Tensor { return slices.Clone(m.tensors) }

// Tensor returns the entry called name.
func (m *Model) Tensor(name string) (Tensor, bool) {
	i, ok := m.index[name]
	if !ok {
		return Tensor{}, false
	}
	return m.tensors[i], true
}

// ReadFloats is File.ReadFloats for a tensor of this model.
func (m *Model) ReadFloats(dst []float32, t Tensor, first uint64) error {
	return m.files[t.shard].ReadFloats(dst, t, first)
}

// placed is one line of an index.
type placed struct{ tensor, file string }

// shards returns the names of the files to open and, with an index, where it
// says each tensor is.
func shards(dir string) ([]string, []placed, error) {
	index := filepath.Join(dir, indexName)
	if o, err := os.Open(index); err == nil {
		defer o.Close()
		weightMap, err := readIndex(o)
		if err != nil {
			return nil, nil, withPath(err, index)
		}
		var names []string
		seen := map[string]bool{}
		for _, w := range weightMap {
			if !seen[w.file] {
				seen[w.file] = true
				names = append(names, w.file)
			}
		}
		return names, weightMap, nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, nil, fmt.Errorf("safetensors: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, singleName)); err == nil {
		return []string{singleName}, nil, nil
	}
	names, err := numbered(dir)
	return names, nil, err
}

// readIndex takes weight_map in the order of the file.
func readIndex(r io.Reader) ([]placed, error) {
	l := newLexer(io.LimitReader(r, maxIndex), 0)
	var out []placed
	files, seen := map[string]bool{}, map[string]bool{}
	found := false
	err := l.object(maxName, func(key string) error {
		if key != "weight_map" {
			return l.skip(maxDepth)
		}
		if found {
			return l.errorf("weight_map is there twice")
		}
		found = true
		return l.object(maxName, func(tensor string) error {
			if seen[tensor] {
				return l.errorf("duplicate tensor %q", tensor)
			}
			file, err := l.text(maxName)
			if err != nil {
				return err
			}
			if !plainName(file) {
				return l.errorf("tensor %q is in %q: want the name of a .safetensors file beside the index", tensor, file)
			}
			files[file], seen[tensor] = true, true
			if len(out) == maxTensors || len(files) > maxShards {
				return l.errorf("over %d tensors or %d files", maxTensors, maxShards)
			}
			out = append(out, placed{tensor, file})
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, l.errorf("no weight_map with tensors")
	}
	return out, l.end()
}

// plainName keeps an index from naming files outside its directory.
func plainName(s string) bool {
	return strings.HasSuffix(s, ".safetensors") && !strings.ContainsAny(s, "/\\\x00") && !strings.HasPrefix(s, ".")
}

// numbered finds model-NNNNN-of-NNNNN.safetensors and checks that none is
// missing.
func numbered(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	total := 0
	present := map[string]bool{}
	for _, e := range entries {
		n, of, ok := shardNumber(e.Name())
		if !ok {
			continue
		}
		if total != 0 && of != total {
			return nil, fmt.Errorf("safetensors: %s: shards of %d and of %d files side by side: keep one set", dir, total, of)
		}
		if total = of; n < 1 || n > of || of > maxShards {
			return nil, fmt.Errorf("safetensors: %s: %s: no such shard of %d", dir, e.Name(), of)
		}
		present[e.Name()] = true
	}
	if total == 0 {
		return nil, fmt.Errorf("safetensors: %s: neither %s, %s nor model-00001-of-NNNNN.safetensors: %w", dir, indexName, singleName, os.ErrNotExist)
	}
	var names []string
	for n := 1; n <= total; n++ {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", n, total)
		if !present[name] {
			return nil, fmt.Errorf("safetensors: %s: %s is missing: %w", dir, name, os.ErrNotExist)
		}
		names = append(names, name)
	}
	return names, nil
}

// shardNumber takes the two numbers out of model-00002-of-00003.safetensors.
func shardNumber(name string) (n, of int, ok bool) {
	s, ok1 := strings.CutPrefix(name, "model-")
	s, ok2 := strings.CutSuffix(s, ".safetensors")
	a, b, ok3 := strings.Cut(s, "-of-")
	if !ok1 || !ok2 || !ok3 || len(a) != 5 || len(b) != 5 {
		return 0, 0, false
	}
	n, err1 := strconv.Atoi(a)
	of, err2 := strconv.Atoi(b)
	return n, of, err1 == nil && err2 == nil
}
