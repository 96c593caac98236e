// SPDX-License-Identifier: Apache-2.0

package tokenizer

import (
	"encoding/json"
	"fmt"
)

// maxFileBytes bounds the text of a tokenizer.json: ten times the largest
// one of the model families served here.
const maxFileBytes = 128 << 20

// spec is what a tokenizer file says, before the tables are built.
type spec struct {
	nfc          bool
	steps        []step // pre-tokenisation, in order
	vocab        []byte // JSON object: content -> id
	merges       []byte // JSON array: "a b" or ["a","b"], best first
	added        []addedToken
	unk          string
	hasUnk       bool
	fuseUnk      bool
	ignoreMerges bool
	templated    bool     // the post-processor has a template
	prefix       []string // special tokens that it sets before a sequence
	suffix       []string // and behind it
}

// Parse reads a Hugging Face tokenizer.json of a byte-level BPE model.
//
// Supported are the normalizers NFC and none; the pre-tokenizers Split (with
// one of the known patterns), Digits and ByteLevel; the ByteLevel decoder; the
// BPE model with merges as strings or pairs. Anything else is an error that
// names it. truncation and padding are read over: they are settings of a
// call, which transformers resets for each as well.
//
// The result keeps nothing of the input.
func Parse(tokenizerJSON []byte) (*Tokenizer, error) {
	sp, err := parseFile(tokenizerJSON)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: tokenizer.json: %w", err)
	}
	t, err := build(sp)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: tokenizer.json: %w", err)
	}
	return t, nil
}

func parseFile(text []byte) (*spec, error) {
	if len(text) > maxFileBytes {
		return nil, fmt.Errorf("%d bytes is over the limit of %d", len(text), maxFileBytes)
	}
	s := scanner{buf: text}
	members, err := s.members("version", "truncation", "padding", "added_tokens",
		"normalizer", "pre_tokenizer", "post_processor", "decoder", "model")
	if err != nil {
		return nil, err
	}
	if err := s.end(); err != nil {
		return nil, err
	}
	var version string
	if v := members["version"]; !isNull(v) {
		if err := json.Unmarshal(v, &version); err != nil {
			return nil, fmt.Errorf("version: %w", err)
		}
		if version != "1.0" {
			return nil, fmt.Errorf("version %q is not supported; 1.0 is", version)
		}
	}
	sp := new(spec)
	for _, part := range []struct {
		name string
		read func([]byte) error
	}{
		{"added_tokens", sp.readAdded},
		{"normalizer", sp.readNormalizer},
		{"pre_tokenizer", sp.readPreTokenizer},
		{"post_processor", sp.readPostProcessor},
		{"decoder", sp.readDecoder},
		{"model", sp.readModel},
	} {
		if err := part.read(members[part.name]); err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return sp, nil
}

// members reads an object with the given keys, each at most once, and
// returns the text of their values.
func (s *scanner) members(keys ...string) (map[string][]byte, error) {
	known := make(map[string]bool, len(keys))
	for _, k := range keys {
		known[k] = true
	}
	out := make(map[string][]byte, len(keys))
	err := s.object(func(key []byte) error {
		k := string(key)
		if !known[k] {
			return fmt.Errorf("unknown key %q", k)
		}
		if _, dup := out[k]; dup {
			return fmt.Errorf("key %q appears twice", k)
		}
		v, err := s.value()
		out[k] = v
		return err
	})
	return out, err
}

func (sp *spec) readAdded(raw []byte) error {
	if isNull(raw) {
		return nil
	}
	// One at a time: a file can name a million in the bytes of a thousand.
	list := scanner{buf: raw}
	return list.array(func() error {
		v, err := list.value()
		if err != nil {
			return err
		}
		var t struct {
			ID         *int32  `json:"id"`
			Content    *string `json:"content"`
			SingleWord *bool   `json:"single_word"`
			Lstrip     *bool   `json:"lstrip"`
			Rstrip     *bool   `json:"rstrip"`
			Normalized *bool   `json:"normalized"`
			Special    *bool   `json:"special"`
		}
		if err := strict(v, &t); err != nil {
			return fmt.Errorf("entry %d: %w", len(sp.added), err)
		}
		if t.ID == nil || t.Content == nil || t.SingleWord == nil || t.Lstrip == nil ||
			t.Rstrip == nil || t.Normalized == nil || t.Special == nil {
			return fmt.Errorf("entry %d: a field is missing (id, content, single_word, lstrip, rstrip, normalized, special)", len(sp.added))
		}
		sp.added = append(sp.added, addedToken{
			id: *t.ID, content: *t.Content, singleWord: *t.SingleWord,
			lstrip: *t.Lstrip, rstrip: *t.Rstrip, normalized: *t.Normalized, special: *t.Special,
		})
		return nil
	})
}

// typeOf reads the "type" of a component.
func typeOf(raw []byte) (string, error) {
	var c struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return "", err
	}
	return c.Type, nil
}

func (sp *spec) readNormalizer(raw []byte) error {
	return sp.normalizer(raw, 0)
}

func (sp *spec) normalizer(raw []byte, depth int) error {
	if isNull(raw) {
		return nil
	}
	kind, err := typeOf(raw)
	if err != nil {
		return err
	}
	switch {
	case kind == "NFC":
		sp.nfc = true
		return strict(raw, &struct {
			Type string `json:"type"`
		}{})
	case kind == "Sequence" && depth == 0:
		var seq struct {
			Type        string            `json:"type"`
			Normalizers []json.RawMessage `json:"normalizers"`
		}
		if err := strict(raw, &seq); err != nil {
			return err
		}
		for _, n := range seq.Normalizers {
			if err := sp.normalizer(n, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("type %q is not supported; NFC and none are", kind)
}

func (sp *spec) readPreTokenizer(raw []byte) error {
	if err := sp.preTokenizer(raw, 0); err != nil {
		return err
	}
	if n := len(sp.steps); n == 0 || sp.steps[n-1].kind != stepBytes {
		return fmt.Errorf("no ByteLevel at the end: only byte-level models are supported")
	}
	sp.steps = sp.steps[:len(sp.steps)-1]
	return nil
}

func (sp *spec) preTokenizer(raw []byte, depth int) error {
	if isNull(raw) {
		return nil
	}
	kind, err := typeOf(raw)
	if err != nil {
		return err
	}
	if n := len(sp.steps); n > 0 && sp.steps[n-1].kind == stepBytes {
		return fmt.Errorf("%q after ByteLevel is not supported", kind)
	}
	if len(sp.steps) > 8 {
		return fmt.Errorf("more than 8 steps are not supported")
	}
	switch {
	case kind == "ByteLevel":
		return sp.byteLevel(raw)
	case kind == "Digits":
		var d struct {
			Type       string `json:"type"`
			Individual bool   `json:"individual_digits"`
		}
		if err := strict(raw, &d); err != nil {
			return err
		}
		sp.steps = append(sp.steps, step{kind: stepDigits, individual: d.Individual})
		return nil
	case kind == "Split":
		return sp.split(raw)
	case kind == "Sequence" && depth == 0:
		var seq struct {
			Type          string            `json:"type"`
			Pretokenizers []json.RawMessage `json:"pretokenizers"`
		}
		if err := strict(raw, &seq); err != nil {
			return err
		}
		for _, p := range seq.Pretokenizers {
			if err := sp.preTokenizer(p, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("type %q is not supported; Split, Digits and ByteLevel are", kind)
}

func (sp *spec) byteLevel(raw []byte) error {
	b := struct {
		Type           string `json:"type"`
		AddPrefixSpace bool   `json:"add_prefix_space"`
		TrimOffsets    bool   `json:"trim_offsets"` // offsets are not reported: no effect
		UseRegex       bool   `json:"use_regex"`
	}{UseRegex: true}
	if err := strict(raw, &b); err != nil {
		return err
	}
	if b.AddPrefixSpace {
		sp.steps = append(sp.steps, step{kind: stepPrefixSpace})
	}
	if b.UseRegex {
		sp.steps = append(sp.steps, step{kind: stepGPT2})
	}
	sp.steps = append(sp.steps, step{kind: stepBytes})
	return nil
}

func (sp *spec) split(raw []byte) error {
	var p struct {
		Type    string `json:"type"`
		Pattern struct {
			Regex  *string `json:"Regex"`
			String *string `json:"String"`
		} `json:"pattern"`
		Behavior string `json:"behavior"`
		Invert   bool   `json:"invert"`
	}
	if err := strict(raw, &p); err != nil {
		return err
	}
	if p.Pattern.Regex == nil || p.Pattern.String != nil {
		return fmt.Errorf("a Split by a plain string is not supported")
	}
	st, ok := knownPatterns[*p.Pattern.Regex]
	if !ok {
		return fmt.Errorf("pattern %q of a Split is not one of the known ones (GPT-2, Qwen2, Llama 3)", *p.Pattern.Regex)
	}
	// The known patterns match every character, so keeping the matches and
	// dropping what is between them is the same as isolating the matches.
	isolated := p.Behavior == "Isolated" && !p.Invert
	onlyMatches := p.Behavior == "Removed" && p.Invert
	if !isolated && !onlyMatches {
		return fmt.Errorf("behavior %q of a Split with invert %v is not supported; Isolated is", p.Behavior, p.Invert)
	}
	sp.steps = append(sp.steps, st)
	return nil
}
