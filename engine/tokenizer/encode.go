// SPDX-License-Identifier: Apache-2.0

package tokenizer

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// encoder is one call of Encode.
type encoder struct {
	t      *Tokenizer
	plane0 *[1 << 16]class
	w      *bpeWork
	out    []int32
}

// Encode returns the ids of a text. No tokens are added before or after.
//
// With parseSpecial special tokens spelt in the text are recognised, as a
// rendered chat template needs; without, they are ordinary characters, as
// text from users should be. Added tokens that are not special (Qwen's
// "<think>") are recognised in both.
//
// Text that is not UTF-8 is taken as if U+FFFD stood in the place of each
// maximal ill-formed part.
func (t *Tokenizer) Encode(text string, parseSpecial bool) []int32 {
	e := encoder{t: t, plane0: plane0(), w: t.work.Get().(*bpeWork)}
	e.out = make([]int32, 0, len(text)/3+1)
	token := func(id int32) { e.out = append(e.out, id) }
	words := func(s string) { e.pieces(t.steps, s) }
	t.early.split(validUTF8(text), parseSpecial, token, func(s string) {
		if t.nfc {
			s = toNFC(s)
		}
		t.late.split(s, parseSpecial, token, words)
	})
	if e.w.small() {
		t.work.Put(e.w)
	}
	return e.out
}

// small tells whether scratch memory is worth keeping: that of a megabyte
// without a blank is not.
func (w *bpeWork) small() bool { return cap(w.ids) <= 1<<16 && cap(w.heap) <= 1<<17 }

// word appends the ids of one pre-token.
func (e *encoder) word(s string) {
	t := e.t
	if len(s) > maxCachedWord {
		e.out = t.encodeWord(e.out, s, e.w)
		return
	}
	h := maphash.String(t.index.seed, s)
	if c := t.cache.get(h, s); c != nil {
		e.out = append(e.out, c.ids[:c.n]...)
		return
	}
	start := len(e.out)
	e.out = t.encodeWord(e.out, s, e.w)
	t.cache.put(h, s, e.out[start:])
}

func (t *Tokenizer) encodeWord(out []int32, s string, w *bpeWork) []int32 {
	if t.ignoreMerges {
		if id, ok := t.wholeWord(s); ok {
			return append(out, id)
		}
	}
	return t.bpe(out, s, w)
}

// wholeWord finds a word that is a token as it stands.
func (t *Tokenizer) wholeWord(s string) (int32, bool) {
	var buf [128]byte
	name := buf[:0]
	for i := range len(s) {
		name = utf8.AppendRune(name, runeOf(s[i]))
	}
	id, ok := t.index.find(t, name)
	return id, ok && t.kind[id]&kindModel != 0
}

const (
	maxCachedWord = 48
	maxCachedIDs  = 10
	cacheSlots    = 1 << 14
)

// wordCache remembers the ids of recent words. One word a slot, the newest
// stays; an entry never changes once it is in, so that readers need no lock.
// At most 2 MB.
type wordCache [cacheSlots]atomic.Pointer[cachedWord]

type cachedWord struct {
	word string
	n    int32
	ids  [maxCachedIDs]int32
}

func (c *wordCache) get(h uint64, word string) *cachedWord {
	w := c[h%cacheSlots].Load()
	if w == nil || w.word != word {
		return nil
	}
	return w
}

func (c *wordCache) put(h uint64, word string, ids []int32) {
	if len(ids) > maxCachedIDs {
		return
	}
	w := &cachedWord{word: strings.Clone(word), n: int32(len(ids))}
	copy(w.ids[:], ids)
	c[h%cacheSlots].Store(w)
}
