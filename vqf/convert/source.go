// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"windhover/vqf"
)

// source is a model before conversion, whatever it is stored in. Opening one
// has checked its settings; its tensors are checked by bind.
type source struct {
	path   string
	format string // for the report: "GGUF v3", "Hugging Face, 3 safetensors files"
	files  []sourceFile

	architecture string // qwen3, llama, qwen3moe, qwen3vl, qwen3vlmoe
	arch         vqf.Arch
	context      uint64 // tokens the model was made for
	ownHead      bool   // the configuration says that there is a head of its own
	headless     bool   // and yet it may be missing
	names        naming
	experts      map[string][]stack // of mixtures
	vision       *tower             // nil: no vision tensors are converted
	permuted     bool               // q and k rows lie in pairs, as GGUF has them for llama
	ignored      func(name string) bool

	tensors []*tensor
	byName  map[string]*tensor

	tokenizer []byte // tokenizer.json; nil when the source has none
	words     words
	notes     []string // for the report
	closer    io.Closer
}

// sourceFile is one file the model was made from.
type sourceFile struct {
	path string
	size int64
}

// tensor is one weight of a source.
type tensor struct {
	name     string
	typ      string
	shape    []uint64 // outermost first
	readable bool
	// read fills dst with the values from element first on; both are multiples
	// of a row. It may be called from several goroutines.
	read func(dst []float32, first uint64) error
}

func (s *source) add(t *tensor) {
	s.tensors = append(s.tensors, t)
	s.byName[t.name] = t
}

func (s *source) addFile(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	s.files = append(s.files, sourceFile{path: path, size: st.Size()})
	return nil
}

// types counts the source's tensors by type, most frequent first.
func (s *source) types() string {
	count := map[string]int{}
	for _, t := range s.tensors {
		count[t.typ]++
	}
	keys := make([]string, 0, len(count))
	for k := range count {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if d := count[b] - count[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for i, k := range keys {
		keys[i] = fmt.Sprintf("%d %s", count[k], k)
	}
	return strings.Join(keys, ", ")
}

// open looks at what src is and opens it.
func open(src string, s *settings) (*source, error) {
	st, err := os.Stat(src)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	if st.IsDir() {
		return openDir(src, s)
	}
	f, err := os.Open(src)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	var magic [4]byte
	_, err = io.ReadFull(f, magic[:])
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	switch {
	case err != nil:
		return nil, faulty("%s: too short to be a model: %v", src, err)
	case string(magic[:]) == "GGUF":
		return openGGUF(src, s)
	case string(magic[:]) == "FQFW":
		return nil, unsupported("%s is a VQF file already", src)
	case strings.HasSuffix(src, ".safetensors"):
		return nil, unsupported("%s: weights alone are no model: give the directory %s with its config.json", src, filepath.Dir(src))
	}
	return nil, unsupported("%s is neither a GGUF file nor a Hugging Face directory", src)
}

// families is what can be converted, for messages.
const families = "qwen3, llama, qwen3moe and qwen3vl are converted"

// familyOf maps the names that containers use for an architecture to ours, or
// says why it is not converted.
func familyOf(name string) (string, error) {
	switch name {
	case "qwen3", "llama", "qwen3moe", "qwen3vlmoe":
		return name, nil
	case "qwen3_moe":
		return "qwen3moe", nil
	case "qwen3vl", "qwen3_vl", "qwen3_vl_text":
		return "qwen3vl", nil
	case "qwen3_vl_moe", "qwen3_vl_moe_text":
		return "", unsupported("architecture %q stores its experts transposed, which is not read: convert the model's GGUF file with its projector (--mmproj)", name)
	case "clip":
		return "", unsupported("architecture %q is a vision projector: give the text model's file, and this one with --mmproj", name)
	}
	return "", unsupported("architecture %q: %s", name, families)
}

// sees says whether a family has a vision tower.
func sees(family string) bool { return strings.HasPrefix(family, "qwen3vl") }
