// SPDX-License-Identifier: Apache-2.0

package tokenizer

import (
	"encoding/json"
	"fmt"
)

// readPostProcessor accepts what changes no ids (ByteLevel) and templates
// that put special tokens before a sequence (Llama 3) or behind it
// (Qwen3-Embedding): see Tokenizer.Prefix and Tokenizer.Suffix.
func (sp *spec) readPostProcessor(raw []byte) error {
	return sp.postProcessor(raw, 0)
}

func (sp *spec) postProcessor(raw []byte, depth int) error {
	if isNull(raw) {
		return nil
	}
	kind, err := typeOf(raw)
	if err != nil {
		return err
	}
	switch {
	case kind == "ByteLevel":
		return strict(raw, new(byteLevelOptions))
	case kind == "TemplateProcessing":
		return sp.templateProcessing(raw)
	case kind == "Sequence" && depth == 0:
		var seq struct {
			Type       string            `json:"type"`
			Processors []json.RawMessage `json:"processors"`
		}
		if err := strict(raw, &seq); err != nil {
			return err
		}
		for _, p := range seq.Processors {
			if err := sp.postProcessor(p, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("type %q is not supported; ByteLevel and TemplateProcessing are", kind)
}

// byteLevelOptions are the fields of a ByteLevel decoder or post-processor.
// None of them changes ids or text there.
type byteLevelOptions struct {
	Type           string `json:"type"`
	AddPrefixSpace bool   `json:"add_prefix_space"`
	TrimOffsets    bool   `json:"trim_offsets"`
	UseRegex       bool   `json:"use_regex"`
}

func (sp *spec) templateProcessing(raw []byte) error {
	type piece struct {
		ID     string `json:"id"`
		TypeID int    `json:"type_id"`
	}
	var p struct {
		Type   string `json:"type"`
		Single []struct {
			SpecialToken *piece `json:"SpecialToken"`
			Sequence     *piece `json:"Sequence"`
		} `json:"single"`
		Pair          json.RawMessage `json:"pair"` // pairs of sequences are never encoded
		SpecialTokens json.RawMessage `json:"special_tokens"`
	}
	if err := strict(raw, &p); err != nil {
		return err
	}
	if sp.templated {
		return fmt.Errorf("two TemplateProcessing are not supported")
	}
	sp.templated = true
	seen := false
	for _, e := range p.Single {
		switch {
		case e.Sequence != nil && e.SpecialToken == nil && !seen:
			seen = true
		case e.SpecialToken != nil && e.Sequence == nil && !seen:
			sp.prefix = append(sp.prefix, e.SpecialToken.ID)
		case e.SpecialToken != nil && e.Sequence == nil:
			sp.suffix = append(sp.suffix, e.SpecialToken.ID)
		default:
			return fmt.Errorf("TemplateProcessing other than special tokens around one sequence is not supported")
		}
	}
	if !seen {
		return fmt.Errorf("TemplateProcessing without a sequence")
	}
	return nil
}

func (sp *spec) readDecoder(raw []byte) error {
	if isNull(raw) {
		return fmt.Errorf("none: only byte-level models with a ByteLevel decoder are supported")
	}
	kind, err := typeOf(raw)
	if err != nil {
		return err
	}
	if kind != "ByteLevel" {
		return fmt.Errorf("type %q is not supported; ByteLevel is", kind)
	}
	return strict(raw, new(byteLevelOptions))
}

func (sp *spec) readModel(raw []byte) error {
	if isNull(raw) {
		return fmt.Errorf("missing")
	}
	s := scanner{buf: raw}
	m, err := s.members("type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
		"fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges")
	if err != nil {
		return err
	}
	var f struct {
		kind                   *string
		dropout                *float64
		unk, subPrefix, suffix *string
		fuse, fallback, ignore *bool
	}
	for _, v := range []struct {
		key string
		dst any
	}{
		{"type", &f.kind}, {"dropout", &f.dropout}, {"unk_token", &f.unk},
		{"continuing_subword_prefix", &f.subPrefix}, {"end_of_word_suffix", &f.suffix},
		{"fuse_unk", &f.fuse}, {"byte_fallback", &f.fallback}, {"ignore_merges", &f.ignore},
	} {
		if raw, ok := m[v.key]; ok {
			if err := json.Unmarshal(raw, v.dst); err != nil {
				return fmt.Errorf("%s: %w", v.key, err)
			}
		}
	}
	set := func(b *bool) bool { return b != nil && *b }
	switch {
	case f.kind != nil && *f.kind != "BPE":
		return fmt.Errorf("type %q is not supported; BPE is", *f.kind)
	case f.dropout != nil && *f.dropout != 0:
		return fmt.Errorf("dropout %v is not supported: encoding would be random", *f.dropout)
	case f.subPrefix != nil && *f.subPrefix != "":
		return fmt.Errorf("continuing_subword_prefix %q is not supported", *f.subPrefix)
	case f.suffix != nil && *f.suffix != "":
		return fmt.Errorf("end_of_word_suffix %q is not supported", *f.suffix)
	case set(f.fallback):
		return fmt.Errorf("byte_fallback is not supported: a byte-level model has a token for every byte")
	case isNull(m["vocab"]):
		return fmt.Errorf("vocab is missing")
	case isNull(m["merges"]):
		return fmt.Errorf("merges are missing")
	}
	if f.unk != nil {
		sp.unk, sp.hasUnk = *f.unk, true
	}
	sp.fuseUnk, sp.ignoreMerges = set(f.fuse), set(f.ignore)
	sp.vocab, sp.merges = m["vocab"], m["merges"]
	return nil
}
