// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"windhover/engine/tokenizer"
	"windhover/vqf"
)

// Meta is what a VQF file says about its model beside the weights: the JSON of
// its t_meta entry (docs/FORMAT.md), or what the files beside a bare one say.
type Meta struct {
	Version       int        `json:"v"`
	Converter     string     `json:"converter"`
	Name          string     `json:"name"`
	Architecture  string     `json:"architecture"`
	ChatTemplate  string     `json:"chat_template"`
	BosToken      string     `json:"bos_token"`
	EosToken      string     `json:"eos_token"`
	AddBOS        bool       `json:"add_bos"`
	BosID         int32      `json:"bos_id"` // -1: none
	EosID         int32      `json:"eos_id"` // -1: none
	StopIDs       []int32    `json:"stop_ids"`
	Generation    Generation `json:"generation"`
	Mode          string     `json:"mode"`
	Quantiser     string     `json:"quantiser"`
	Tied          bool       `json:"tied"`
	Params        int64      `json:"params"`
	ContextLength int        `json:"context_length"`
	Pooling       string     `json:"pooling"` // how an embedding is made of a text: "last", of its last token; "": not at all; others are refused when asked for one
}

// Generation holds the sampling a model was published with; nil fields were not
// given.
type Generation struct {
	Temperature   *float32 `json:"temperature"`
	TopP          *float32 `json:"top_p"`
	TopK          *int     `json:"top_k"`
	MinP          *float32 `json:"min_p"`
	RepeatPenalty *float32 `json:"repeat_penalty"`
}

// maxStopIDs bounds the end tokens of a model, which are compared with every token
// that comes out. Models have one to five.
const maxStopIDs = 1024

// parseMeta reads the t_meta entry.
func parseMeta(data []byte) (*Meta, error) {
	m := &Meta{BosID: -1, EosID: -1}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("engine: t_meta: %v", err)
	}
	if n := len(m.StopIDs); n > maxStopIDs {
		return nil, fmt.Errorf("engine: t_meta: stop_ids has %d ids, the most is %d", n, maxStopIDs)
	}
	return m, nil
}

// findTokenizer takes the tokenizer embedded in the file, else the one beside
// it. source says which.
func findTokenizer(f *vqf.File) (tok *tokenizer.Tokenizer, source string, err error) {
	if data := f.Tokenizer(); data != nil {
		tok, err := tokenizer.Parse(data)
		if err != nil {
			return nil, "", fmt.Errorf("engine: %s: t_tokenizer: %w", f.Path(), err)
		}
		return tok, "embedded", nil
	}
	dir := filepath.Dir(f.Path())
	path := filepath.Join(dir, "tokenizer.json")
	data, err := readBeside(path)
	if err != nil {
		return nil, "", err
	}
	if data != nil {
		tok, err := tokenizer.Parse(data)
		if err != nil {
			return nil, "", fmt.Errorf("engine: %s: %w", path, err)
		}
		return tok, path, nil
	}
	path = filepath.Join(dir, "vocab.json")
	vocab, err := readBeside(path)
	if err != nil {
		return nil, "", err
	}
	merges, err := readBeside(filepath.Join(dir, "merges.txt"))
	if err != nil {
		return nil, "", err
	}
	if vocab == nil || merges == nil {
		return nil, "", fmt.Errorf("%w in %s or beside it (tokenizer.json, or vocab.json with merges.txt); windhover pack adds one",
			ErrNoTokenizer, f.Path())
	}
	config, err := readBeside(filepath.Join(dir, "tokenizer_config.json"))
	if err != nil {
		return nil, "", err
	}
	tok, err = tokenizer.FromVocabMerges(vocab, merges, config)
	if err != nil {
		return nil, "", fmt.Errorf("engine: %s: %w", path, err)
	}
	return tok, path, nil
}

// maxBeside bounds a tokenizer file; the largest in use are some 20 MB.
const maxBeside = 256 << 20

// readBeside reads a file that may be missing: nil then.
func readBeside(path string) ([]byte, error) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("engine: %w", err)
	case !st.Mode().IsRegular() || st.Size() > maxBeside:
		return nil, fmt.Errorf("engine: %s: not a regular file of at most %d bytes", path, maxBeside)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	return data, nil
}

// metaOf returns what is known about the model: t_meta, else the files beside
// it, and the end tokens from the header where neither names one. tok may be
// nil.
func metaOf(f *vqf.File, tok *tokenizer.Tokenizer) (*Meta, error) {
	if data := f.Meta(); data != nil {
		m, err := parseMeta(data)
		if err != nil {
			return nil, fmt.Errorf("engine: %s: %w", f.Path(), err)
		}
		if len(m.StopIDs) == 0 && m.EosID >= 0 {
			m.StopIDs = []int32{m.EosID}
		}
		return m, nil
	}
	m, err := metaBeside(filepath.Dir(f.Path()), tok)
	if err != nil {
		return nil, err
	}
	if len(m.StopIDs) == 0 {
		m.StopIDs = headerStop(f.Arch(), tok)
	}
	if m.EosID < 0 && len(m.StopIDs) > 0 {
		m.EosID = m.StopIDs[0]
	}
	return m, nil
}

// headerStop is the header's end token. A 0 there mostly means that the source
// named none (docs/FORMAT.md, conversion), so that it counts only when the
// tokenizer calls it special.
func headerStop(arch vqf.Arch, tok *tokenizer.Tokenizer) []int32 {
	id := arch.EosID
	if id >= arch.VocabSize || id == 0 && (tok == nil || !tok.Special(0)) {
		return nil
	}
	return []int32{int32(id)}
}
