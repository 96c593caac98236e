// SPDX-License-Identifier: Apache-2.0

package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// outFile is a tokenizer.json as this package writes it, in the reference's
// order of keys.
type outFile struct {
	Version       string     `json:"version"`
	Truncation    *struct{}  `json:"truncation"`
	Padding       *struct{}  `json:"padding"`
	AddedTokens   []outAdded `json:"added_tokens"`
	Normalizer    any        `json:"normalizer"`
	PreTokenizer  any        `json:"pre_tokenizer"`
	PostProcessor any        `json:"post_processor"`
	Decoder       any        `json:"decoder"`
	Model         outModel   `json:"model"`
}

type outAdded struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	Lstrip     bool   `json:"lstrip"`
	Rstrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

type outModel struct {
	Type         string          `json:"type"`
	Dropout      *float64        `json:"dropout"`
	UnkToken     *string         `json:"unk_token"`
	FuseUnk      bool            `json:"fuse_unk"`
	ByteFallback bool            `json:"byte_fallback"`
	IgnoreMerges bool            `json:"ignore_merges"`
	Vocab        json.RawMessage `json:"vocab"`
	Merges       [][2]string     `json:"merges"`
}

type outType struct {
	Type string `json:"type"`
}

type outSequence struct {
	Type          string `json:"type"`
	Pretokenizers []any  `json:"pretokenizers"`
}

type outSplit struct {
	Type     string            `json:"type"`
	Pattern  map[string]string `json:"pattern"`
	Behavior string            `json:"behavior"`
	Invert   bool              `json:"invert"`
}

type outDigits struct {
	Type       string `json:"type"`
	Individual bool   `json:"individual_digits"`
}

// family is the part of a tokenizer.json that older formats only name.
type family int

const (
	familyGPT2 family = iota
	familyQwen2
	familySmolLM
	familyLlama3
)

// setFamily fills in everything but tokens and merges, as the models of a
// family ship it.
func (f *outFile) setFamily(fam family, prefixSpace bool) {
	f.Version = "1.0"
	f.Model.Type = "BPE"
	f.Decoder = byteLevelOptions{"ByteLevel", true, true, true}
	own := byteLevelOptions{"ByteLevel", prefixSpace, true, true}
	split := func(pattern string) any {
		plain := byteLevelOptions{"ByteLevel", prefixSpace, false, false}
		return outSequence{"Sequence", []any{
			outSplit{"Split", map[string]string{"Regex": pattern}, "Isolated", false}, plain}}
	}
	switch fam {
	case familyGPT2:
		f.PreTokenizer = own
	case familySmolLM:
		f.PreTokenizer = outSequence{"Sequence", []any{outDigits{"Digits", true}, own}}
	case familyQwen2:
		f.Normalizer = outType{"NFC"}
		f.PreTokenizer = split(patternQwen2)
	case familyLlama3:
		f.PreTokenizer = split(patternLlama3)
		f.Model.IgnoreMerges = true
	}
}

// around is a special token that the post-processor sets.
type around struct {
	token string
	id    int32
}

// setTemplate has the post-processor put tokens before and behind a sequence,
// each sequence of a pair.
func (f *outFile) setTemplate(before, behind []around) {
	type piece struct {
		ID     string `json:"id"`
		TypeID int    `json:"type_id"`
	}
	type entry struct {
		SpecialToken *piece `json:"SpecialToken,omitempty"`
		Sequence     *piece `json:"Sequence,omitempty"`
	}
	type special struct {
		ID     string   `json:"id"`
		IDs    []int32  `json:"ids"`
		Tokens []string `json:"tokens"`
	}
	tokens := map[string]special{}
	sequence := func(name string, kind int) (list []entry) {
		put := func(tokens []around) {
			for _, a := range tokens {
				list = append(list, entry{SpecialToken: &piece{a.token, kind}})
			}
		}
		put(before)
		list = append(list, entry{Sequence: &piece{name, kind}})
		put(behind)
		return list
	}
	for _, a := range slices.Concat(before, behind) {
		tokens[a.token] = special{a.token, []int32{a.id}, []string{a.token}}
	}
	a := sequence("A", 0)
	f.PostProcessor = struct {
		Type          string             `json:"type"`
		Single        []entry            `json:"single"`
		Pair          []entry            `json:"pair"`
		SpecialTokens map[string]special `json:"special_tokens"`
	}{"TemplateProcessing", a, append(slices.Clip(a), sequence("B", 1)...), tokens}
}

// addMerge enters "left right".
func (f *outFile) addMerge(line string) error {
	a, b, err := cutMerge([]byte(line))
	if err != nil {
		return fmt.Errorf("merges: entry %d: %w", len(f.Model.Merges), err)
	}
	f.Model.Merges = append(f.Model.Merges, [2]string{string(a), string(b)})
	return nil
}

// bytes writes the file and reads it back: what is returned is a tokenizer
// that Parse takes.
func (f *outFile) bytes() ([]byte, error) {
	if f.AddedTokens == nil {
		f.AddedTokens = []outAdded{}
	}
	if f.Model.Merges == nil {
		f.Model.Merges = [][2]string{}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(f); err != nil {
		return nil, err
	}
	out := bytes.TrimRight(b.Bytes(), "\n")
	sp, err := parseFile(out)
	if err != nil {
		return nil, err
	}
	if _, err := build(sp); err != nil {
		return nil, err
	}
	return out, nil
}

// vocabWriter writes the object content -> id.
type vocabWriter struct{ b []byte }

func (v *vocabWriter) add(content string, id int) error {
	if !utf8.ValidString(content) {
		return fmt.Errorf("token %d, %q, is not UTF-8", id, content)
	}
	sep := byte(',')
	if len(v.b) == 0 {
		sep = '{'
	}
	var key strings.Builder
	e := json.NewEncoder(&key)
	e.SetEscapeHTML(false)
	if err := e.Encode(content); err != nil {
		return err
	}
	v.b = append(v.b, sep)
	v.b = append(v.b, strings.TrimSuffix(key.String(), "\n")...)
	v.b = fmt.Appendf(v.b, ":%d", id)
	return nil
}

func (v *vocabWriter) json() json.RawMessage {
	if len(v.b) == 0 {
		return json.RawMessage("{}")
	}
	return append(v.b, '}')
}
