// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"windhover/vqf"
	"windhover/vqf/gguf"
	"windhover/vqf/seal"
)

// Words is what a model has beside its weights: tokenizer, chat template, ids
// and generation defaults.
type Words struct {
	Tokenizer []byte // tokenizer.json
	Origin    string // the file it was found in, or made of
	src       *source
}

// ReadWords finds the tokenizer that path has: a .vqf (inside it or beside it),
// a .gguf, a tokenizer.json, or a directory with tokenizer files. Errors match
// ErrSource or ErrUnsupported, or are the system's.
func ReadWords(path string) (*Words, error) { return ReadSealedWords(path, nil) }

// ReadSealedWords is ReadWords with the key of encrypted .vqf files, whose tag is
// compared first. Without one such a file is vqf.ErrKey.
func ReadSealedWords(path string, key *seal.Key) (*Words, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	switch {
	case st.IsDir():
		return dirWords(path)
	case filepath.Ext(path) == ".json":
		return jsonWords(path)
	}
	w, err := vqfWords(path, key)
	if errors.Is(err, vqf.ErrFormat) {
		if g, gerr := ggufWords(path); !errors.Is(gerr, gguf.ErrFormat) {
			return g, gerr
		}
		return nil, faulty("%s is neither a VQF nor a GGUF file, nor a tokenizer.json", path)
	}
	return w, err
}

// anySource is a source that does not know the size of the vocabulary.
func anySource(path string) *source {
	s := &source{path: path}
	s.arch.VocabSize = math.MaxUint32
	s.words = words{bosID: -1, eosID: -1}
	return s
}

// dirWords reads the files of a Hugging Face directory; config.json may be missing.
func dirWords(dir string) (*Words, error) {
	c := &config{path: filepath.Join(dir, "config.json")}
	if _, err := os.Stat(c.path); err == nil {
		if c, err = readConfig(dir); err != nil {
			return nil, err
		}
	}
	s := anySource(dir)
	if name := c.text1("model_type"); name != "" {
		// Of an architecture that is not converted only the name is lost.
		s.architecture, _ = familyOf(name)
	}
	s.words.name = c.text1("_name_or_path")
	if err := s.hfPooling(dir); err != nil {
		return nil, err
	}
	if err := s.hfWords(dir, c); err != nil {
		return nil, err
	}
	if s.tokenizer == nil {
		return nil, faulty("%s has no tokenizer: neither tokenizer.json nor vocab.json with merges.txt", dir)
	}
	return &Words{s.tokenizer, filepath.Join(dir, "tokenizer.json"), s}, nil
}

// jsonWords reads a tokenizer.json, with the files beside it if it has its usual
// name.
func jsonWords(path string) (*Words, error) {
	if filepath.Base(path) == "tokenizer.json" {
		return dirWords(filepath.Dir(path))
	}
	b, err := readUpTo(path, maxVocab)
	if err != nil {
		return nil, err
	}
	s := anySource(path)
	tok, err := s.setTokenizer(path, b)
	if err != nil {
		return nil, err
	}
	s.words.resolve(tok)
	return &Words{b, path, s}, nil
}

func ggufWords(path string) (w *Words, err error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, &failure{kind: ErrSource, msg: "source", err: err}
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	k, s := &ggufKeys{f: f}, anySource(path)
	if !k.hasWords() {
		return nil, faulty("%s has no tokenizer", path)
	}
	s.words.name = k.text("general.name")
	if k.prefix = k.text("general.architecture"); k.prefix != "" {
		s.architecture, _ = familyOf(k.prefix) // as above
	}
	if k.prefix != "" {
		k.pooling(s)
	}
	if err := k.words(s); err != nil {
		return nil, err
	}
	return &Words{s.tokenizer, path, s}, k.err
}

func vqfWords(path string, key *seal.Key) (w *Words, err error) {
	f, err := vqf.Open(path, vqf.OpenOptions{Key: key, Lazy: true})
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b := f.Tokenizer()
	if b == nil {
		if w, err = dirWords(filepath.Dir(path)); errors.Is(err, ErrSource) {
			return nil, faulty("%s has no tokenizer, and none is beside it: windhover pack adds one", path)
		}
		return w, err
	}
	s := anySource(path)
	tok, err := s.setTokenizer(path, b)
	if err != nil {
		return nil, err
	}
	if b := f.Meta(); b != nil {
		var e meta
		if err := json.Unmarshal(b, &e); err != nil {
			return nil, faulty("%s: %s: %v", path, vqf.NameMeta, err)
		}
		s.architecture = e.Architecture
		s.words = words{name: e.Name, template: e.ChatTemplate, bosToken: e.BosToken, eosToken: e.EosToken, addBOS: e.AddBOS,
			bosID: e.BosID, eosID: e.EosID, stopIDs: e.StopIDs, special: e.SpecialIDs, generation: e.Generation, pooling: e.Pooling}
	}
	s.words.resolve(tok)
	return &Words{b, path, s}, nil
}
