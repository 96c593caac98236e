// SPDX-License-Identifier: Apache-2.0

package tokenizer

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

func readTestdata(tb testing.TB, path ...string) []byte {
	tb.Helper()
	f, err := os.Open(filepath.Join(append([]string{"testdata"}, path...)...))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// smallFile is a tokenizer.json of a few tokens, for mutation.
func smallFile(tb testing.TB, fam family) []byte {
	tb.Helper()
	var f outFile
	f.setFamily(fam, false)
	var vocab vocabWriter
	for id, token := range []string{"a", "b", "Ġ", "ab", "Ġab", "Ã", "©", "Ã©", "1", "<|e|>"} {
		if err := vocab.add(token, id); err != nil {
			tb.Fatal(err)
		}
	}
	f.Model.Vocab = vocab.json()
	f.Model.Merges = [][2]string{{"a", "b"}, {"Ġ", "ab"}, {"Ã", "©"}}
	f.AddedTokens = []outAdded{{ID: 9, Content: "<|e|>", Special: true}, {ID: 10, Content: "<x>", Lstrip: true, Rstrip: true, SingleWord: true, Normalized: true}}
	f.setTemplate([]around{{"<|e|>", 9}}, []around{{"<x>", 10}, {"<|e|>", 9}})
	out, err := f.bytes()
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

const fuzzText = "ab é 1 <|e|> <x>ab12\n\n  I'm \u0301\u1100\u1161 中\x00"

func FuzzParse(f *testing.F) {
	for _, fam := range []family{familyGPT2, familyQwen2, familySmolLM, familyLlama3} {
		f.Add(smallFile(f, fam))
	}
	f.Add([]byte(`{"model":{"type":"BPE","vocab":{"a":1048575},"merges":["a a"]},"pre_tokenizer":{"type":"ByteLevel"},"decoder":{"type":"ByteLevel"}}`))
	f.Add([]byte(strings.Repeat("[", 100000)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		tok, err := Parse(raw)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "tokenizer: ") || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q", err)
			}
			return
		}
		checkTokenizer(t, tok, fuzzText)
	})
}

// checkTokenizer checks what holds for any tokenizer and text.
func checkTokenizer(t *testing.T, tok *Tokenizer, text string) {
	t.Helper()
	for _, special := range []bool{false, true} {
		ids := tok.Encode(text, special)
		s, joined := tok.NewStream(special), ""
		for _, id := range ids {
			if tok.TokenBytes(id) == nil || tok.Token(id) == "" {
				t.Errorf("Encode(%q) has %d, which is no token", text, id)
			}
			if back, ok := tok.ID(tok.Token(id)); !ok || back != id {
				t.Errorf("ID(%q) = %d, %v, want %d", tok.Token(id), back, ok, id)
			}
			joined += s.Push(id)
		}
		joined += s.Flush()
		decoded := tok.Decode(ids, special)
		if joined != decoded {
			t.Errorf("the stream of %v gives %q, Decode %q", ids, joined, decoded)
		}
		if !utf8.ValidString(decoded) {
			t.Errorf("Decode(%v) = %q is not UTF-8", ids, decoded)
		}
	}
}

func FuzzEncodeDecode(f *testing.F) {
	var toks []*Tokenizer
	for _, family := range []string{"tiny-qwen", "tiny-smol"} {
		tok, err := Parse(readTestdata(f, family, "tokenizer.json.gz"))
		if err != nil {
			f.Fatal(err)
		}
		toks = append(toks, tok)
		var cases []struct{ Text string }
		if err := json.Unmarshal(readTestdata(f, family, "encode.json.gz"), &cases); err != nil {
			f.Fatal(err)
		}
		for _, c := range cases {
			f.Add(c.Text)
		}
	}
	f.Add(fuzzText)
	f.Add("e" + strings.Repeat("\u0301\u0316", 40) + "\xff\xed\xa0\x80")
	f.Fuzz(func(t *testing.T, text string) {
		for _, tok := range toks {
			checkTokenizer(t, tok, text)
			if strings.Contains(text, "<") {
				continue // may be an added token, which parts what NFC would join
			}
			want := validUTF8(text)
			if tok.nfc {
				want = toNFC(want)
			}
			kept := make([]byte, 0, len(want))
			for i := range len(want) {
				if tok.byteID[want[i]] >= 0 { // bytes without a token are dropped
					kept = append(kept, want[i])
				}
			}
			if got := tok.Decode(tok.Encode(text, true), false); got != validUTF8(string(kept)) {
				t.Errorf("%q comes back as %q, want %q", text, got, kept)
			}
		}
	})
}

func FuzzNFC(f *testing.F) {
	f.Add(fuzzText)
	f.Add("\u1e9b\u0323\uac00\u11a8\u0344\u0958\u2126\ufb4f")
	f.Add("a" + strings.Repeat("\u0301\u0316", 14))
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			return
		}
		got := plainNFC(s)
		if again := plainNFC(got); again != got {
			t.Errorf("plainNFC(%q) = %q, and that of it %q", s, got, again)
		}
		// Without its stream-safe joiners the library is right.
		if lib := norm.NFC.String(s); strings.Count(lib, "\u034f") == strings.Count(s, "\u034f") && got != lib {
			t.Errorf("plainNFC(%q) = %q, want %q", s, got, lib)
		}
	})
}
