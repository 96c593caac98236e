// SPDX-License-Identifier: Apache-2.0

// Package pooling reads how a published model makes embeddings of texts, from the
// files that sentence-transformers keeps beside its weights: modules.json, the list
// of what is computed one after the other, and the config.json of the module that
// makes one vector of a text's many.
package pooling

import (
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"strings"
)

const (
	// Last is an embedding read at a text's last token.
	Last = "last"
	// Unknown is a module that pools and whose config.json is missing.
	Unknown = "unknown"
)

// Sizes of what is read: files of published models have some 300 bytes and three
// modules.
const (
	maxFile    = 1 << 20
	maxModules = 64
)

// module is an entry of modules.json.
type module struct {
	Path string `json:"path"`
	Type string `json:"type"`
}

// kind is the last part of a type such as "sentence_transformers.models.Pooling" or, in
// newer versions, "sentence_transformers.sentence_transformer.modules.pooling.Pooling";
// "" for code of somebody else.
func (m module) kind() string {
	if !strings.HasPrefix(m.Type, "sentence_transformers.") {
		return ""
	}
	return m.Type[strings.LastIndexByte(m.Type, '.')+1:]
}

// Read tells how embeddings are made: Last; "" where the files do not speak of
// embeddings, which is of generating models and of rerankers; else something that
// nobody here computes, in words, such as "mean" or "last, then Dense". read returns a
// file by its name, with slashes, in the model's directory, and nil for one that is not
// there. Errors are those of read and what is wrong with a file, which they name. Whether
// vectors are given length 1 at the end is not told: who compares them divides by it.
func Read(read func(name string) ([]byte, error)) (mode string, err error) {
	const list = "modules.json"
	b, err := read(list)
	if err != nil || b == nil {
		return "", err
	}
	var modules []module
	if err := decode(list, b, &modules); err != nil {
		return "", err
	}
	if len(modules) > maxModules {
		return "", fmt.Errorf("%s: %d modules, at most %d are read", list, len(modules), maxModules)
	}
	var others []string
	for _, m := range modules {
		switch kind := m.kind(); {
		case kind == "Pooling" && mode == "":
			if mode, err = modeOf(m.Path, read); err != nil {
				return "", err
			}
		case kind == "Transformer" && mode == "", kind == "Normalize" && mode != "":
		default:
			if kind == "" {
				kind = m.Type
			}
			others = append(others, fmt.Sprintf("%.80s", kind))
		}
	}
	if mode == "" || len(others) == 0 {
		return mode, nil
	}
	return mode + ", with " + strings.Join(others, " and "), nil
}

// modeOf reads the config.json of the module that pools.
func modeOf(dir string, read func(name string) ([]byte, error)) (string, error) {
	name := path.Join(dir, "config.json")
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", fmt.Errorf("modules.json: path %.80q leads out of the directory", dir)
	}
	b, err := read(name)
	switch {
	case err != nil:
		return "", err
	case b == nil:
		return Unknown, nil
	}
	var c struct {
		Mode         modes `json:"pooling_mode"` // of newer versions, instead of the others
		CLS          bool  `json:"pooling_mode_cls_token"`
		Max          bool  `json:"pooling_mode_max_tokens"`
		Mean         bool  `json:"pooling_mode_mean_tokens"`
		MeanSqrt     bool  `json:"pooling_mode_mean_sqrt_len_tokens"`
		WeightedMean bool  `json:"pooling_mode_weightedmean_tokens"`
		Last         bool  `json:"pooling_mode_lasttoken"`
		// include_prompt does not matter to the last token.
	}
	if err := decode(name, b, &c); err != nil {
		return "", err
	}
	list := c.Mode
	if len(list) == 0 {
		for _, m := range []struct {
			on   bool
			name string
		}{{c.CLS, "cls"}, {c.Max, "max"}, {c.Mean, "mean"}, {c.MeanSqrt, "mean_sqrt_len_tokens"}, {c.WeightedMean, "weightedmean"}, {c.Last, "lasttoken"}} {
			if m.on {
				list = append(list, m.name)
			}
		}
	}
	if len(list) == 0 {
		return "mean", nil // its default
	}
	for i, m := range list {
		if list[i] = fmt.Sprintf("%.40s", m); m == "lasttoken" {
			list[i] = Last
		}
	}
	return strings.Join(list[:min(len(list), 8)], " and "), nil
}

// modes is the name of a mode, a list of them, or null.
type modes []string

// UnmarshalJSON takes the three forms.
func (m *modes) UnmarshalJSON(b []byte) error {
	if b[0] == '[' {
		return json.Unmarshal(b, (*[]string)(m))
	}
	var one *string
	if err := json.Unmarshal(b, &one); err != nil || one == nil {
		return err
	}
	*m = modes{*one}
	return nil
}

func decode(name string, b []byte, into any) error {
	if len(b) > maxFile {
		return fmt.Errorf("%s: %d bytes, at most %d are read", name, len(b), maxFile)
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s: %v", name, err)
	}
	return nil
}
