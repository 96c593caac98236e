// SPDX-License-Identifier: Apache-2.0

package tokenizer

import (
	"fmt"
	"hash/maphash"
	"sync"
)

const (
	// maxTokenID is the highest id taken from a file: four times the largest
	// vocabulary in use. Tables by id take 17 bytes for each id.
	maxTokenID = 1<<20 - 1
	// maxAddedBytes is the longest added token. It bounds what matching
	// added tokens can cost for each byte of a text.
	maxAddedBytes = 256
)

// Tokenizer is a byte-level BPE tokenizer. It does not change once made
// (its cache does, by itself): all methods are safe for concurrent use.
//
// Ids run from 0 to VocabSize()-1. A few of them may have no token, where a
// file leaves gaps.
type Tokenizer struct {
	text  []byte // contents of all tokens, as the file spells them
	textS []span // [id] in text
	raw   []byte // bytes that tokens stand for
	rawT  string // the same, so that a stream need not copy what it shows
	rawS  []span // [id] in raw
	kind  []tokenKind
	index tokenIndex // content -> id

	byteID       [256]int32 // token of a single byte, -1 for none
	merges       mergeTable
	unkID        int32 // -1: characters without a token are dropped
	fuseUnk      bool
	ignoreMerges bool

	nfc    bool
	steps  []step
	early  *addedSet // added tokens found in the text as given
	late   *addedSet // added tokens found in the normalised text
	prefix []int32
	suffix []int32

	cache wordCache
	work  sync.Pool // of *bpeWork
}

type tokenKind uint8

// Bits: an added token may be in the model's vocabulary too. 0 is no token.
const (
	kindModel   tokenKind = 1 << iota // in the model's vocabulary
	kindAdded                         // found in a text before anything else
	kindSpecial                       // added, and a control token
)

// span is a part of a blob. Blobs are under maxFileBytes, so that 32 bits do.
type span struct{ off, n uint32 }

func (s span) of(blob []byte) []byte { return blob[s.off : s.off+s.n] }

// VocabSize returns one more than the highest token id. A model's own
// vocabulary may be padded beyond it.
func (t *Tokenizer) VocabSize() int { return len(t.kind) }

// ID returns the id of a token as its file spells it: "<|im_end|>", "Ġthe".
func (t *Tokenizer) ID(token string) (int32, bool) {
	return t.index.find(t, []byte(token))
}

// Token returns the spelling of a token in its file, the inverse of ID;
// "" where there is no such token.
func (t *Tokenizer) Token(id int32) string {
	if !t.valid(id) {
		return ""
	}
	return string(t.textS[id].of(t.text))
}

// Special tells whether a token is a special one (a control token such as
// "<|im_end|>"), which Decode leaves out when asked to and which Encode
// recognises in a text only when asked to.
func (t *Tokenizer) Special(id int32) bool { return t.valid(id) && t.kind[id]&kindSpecial != 0 }

// Added tells whether a token is one that is found in a text before anything else:
// a special one, or a marker such as "<tool_call>".
func (t *Tokenizer) Added(id int32) bool { return t.valid(id) && t.kind[id]&kindAdded != 0 }

// Prefix returns the ids that the file's post-processor puts before a
// sequence (the begin-of-text token of Llama 3), usually none. Encode does
// not add them: a chat template spells them out.
func (t *Tokenizer) Prefix() []int32 { return append([]int32(nil), t.prefix...) }

// Suffix returns the ids that the file's post-processor puts behind a sequence
// (the end-of-text token of Qwen3-Embedding, at which the embedding is read),
// usually none. Encode does not add them either.
func (t *Tokenizer) Suffix() []int32 { return append([]int32(nil), t.suffix...) }

func (t *Tokenizer) valid(id int32) bool {
	return id >= 0 && int(id) < len(t.kind) && t.kind[id] != 0
}

// build makes the tables. Order matters: tokens, then what refers to them.
func build(sp *spec) (*Tokenizer, error) {
	t := &Tokenizer{unkID: -1, fuseUnk: sp.fuseUnk, ignoreMerges: sp.ignoreMerges, nfc: sp.nfc, steps: sp.steps}
	t.index.seed = maphash.MakeSeed()
	if err := t.readVocab(sp.vocab); err != nil {
		return nil, fmt.Errorf("vocab: %w", err)
	}
	if err := t.readMerges(sp.merges); err != nil {
		return nil, fmt.Errorf("merges: %w", err)
	}
	respelt, err := t.addTokens(sp.added)
	if err != nil {
		return nil, fmt.Errorf("added_tokens: %w", err)
	}
	if sp.hasUnk {
		id, ok := t.ID(sp.unk)
		if !ok {
			return nil, fmt.Errorf("unk_token %q is not in the vocabulary", sp.unk)
		}
		t.unkID = id
	}
	if t.prefix, err = t.ids(sp.prefix); err != nil {
		return nil, fmt.Errorf("post_processor: %w", err)
	}
	if t.suffix, err = t.ids(sp.suffix); err != nil {
		return nil, fmt.Errorf("post_processor: %w", err)
	}
	t.decodeTokens(respelt)
	t.work.New = func() any { return new(bpeWork) }
	return t, nil
}

// ids finds tokens by their spelling.
func (t *Tokenizer) ids(tokens []string) ([]int32, error) {
	var ids []int32
	for _, token := range tokens {
		id, ok := t.ID(token)
		if !ok {
			return nil, fmt.Errorf("token %q is not in the vocabulary", token)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// readVocab reads the object content -> id.
func (t *Tokenizer) readVocab(raw []byte) error {
	s := scanner{buf: raw}
	t.text = make([]byte, 0, len(raw)/2)
	err := s.object(func(key []byte) error {
		at := span{uint32(len(t.text)), uint32(len(key))}
		t.text = append(t.text, key...)
		id, err := s.id()
		if err != nil {
			return err
		}
		return t.put(id, at, kindModel)
	})
	if err != nil {
		return err
	}
	if len(t.kind) == 0 {
		return fmt.Errorf("empty")
	}
	return nil
}

// put enters the token whose content is already in the blob.
func (t *Tokenizer) put(id int32, at span, kind tokenKind) error {
	if grow := int(id) + 1 - len(t.kind); grow > 0 {
		t.kind = append(t.kind, make([]tokenKind, grow)...)
		t.textS = append(t.textS, make([]span, grow)...)
	}
	if t.kind[id] != 0 {
		return fmt.Errorf("id %d belongs to two tokens, %q and %q", id, t.Token(id), at.of(t.text))
	}
	t.kind[id], t.textS[id] = kind, at
	if other, dup := t.index.insert(t, id); dup {
		return fmt.Errorf("token %q has two ids, %d and %d", at.of(t.text), other, id)
	}
	return nil
}

// readMerges reads the list of merges, best first.
func (t *Tokenizer) readMerges(raw []byte) error {
	s := scanner{buf: raw}
	var word []byte // first part, then both
	rank := uint32(0)
	t.merges.init()
	add := func(n int) error {
		a, okA := t.index.find(t, word[:n])
		b, okB := t.index.find(t, word[n:])
		ab, ok := t.index.find(t, word)
		if !okA || !okB || !ok {
			return fmt.Errorf("entry %d: %q + %q: a part or the result is not in the vocabulary", rank, word[:n], word[n:])
		}
		t.merges.set(a, b, rank, ab)
		rank++
		return nil
	}
	return s.array(func() error {
		word = word[:0]
		if s.peek() == '[' {
			parts, first := 0, 0
			err := s.array(func() error {
				part, err := s.string()
				word = append(word, part...)
				if parts++; parts == 1 {
					first = len(part)
				}
				return err
			})
			if err == nil && parts != 2 {
				err = fmt.Errorf("entry %d: %d parts instead of 2", rank, parts)
			}
			if err != nil {
				return err
			}
			return add(first)
		}
		line, err := s.string()
		if err != nil {
			return err
		}
		a, b, err := cutMerge(line)
		if err != nil {
			return fmt.Errorf("entry %d: %w", rank, err)
		}
		word = append(append(word, a...), b...)
		return add(len(a))
	})
}

// addTokens enters the added tokens; one whose content the vocabulary has
// keeps that id. respelt has the contents that normalisation changes: such a
// token is found, and decoded, in its normalised form.
func (t *Tokenizer) addTokens(added []addedToken) (respelt map[int32]string, err error) {
	var early, late []addedToken
	respelt = make(map[int32]string)
	for _, a := range added {
		if len(a.content) == 0 || len(a.content) > maxAddedBytes {
			return nil, fmt.Errorf("token %.40q: length %d is not in 1..%d", a.content, len(a.content), maxAddedBytes)
		}
		if a.id < 0 || a.id > maxTokenID {
			return nil, fmt.Errorf("token %q: id %d is not in 0..%d", a.content, a.id, maxTokenID)
		}
		kind := kindAdded
		if a.special {
			kind |= kindSpecial
		}
		if id, ok := t.ID(a.content); ok {
			switch {
			case id != a.id:
				return nil, fmt.Errorf("token %q has id %d, but %d in the vocabulary", a.content, a.id, id)
			case t.kind[id]&kindAdded != 0:
				return nil, fmt.Errorf("token %q appears twice", a.content)
			}
			t.kind[id] |= kind
		} else {
			at := span{uint32(len(t.text)), uint32(len(a.content))}
			t.text = append(t.text, a.content...)
			if err := t.put(a.id, at, kind); err != nil {
				return nil, err
			}
		}
		if a.normalized {
			if t.nfc {
				a.content = toNFC(a.content)
				respelt[a.id] = a.content
			}
			late = append(late, a)
		} else {
			early = append(early, a)
		}
	}
	t.early, t.late = newAddedSet(early), newAddedSet(late)
	return respelt, nil
}
