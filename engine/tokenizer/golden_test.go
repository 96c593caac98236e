// SPDX-License-Identifier: Apache-2.0

package tokenizer_test

import (
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"windhover/engine/tokenizer"
)

// The reference outputs in testdata were made with Hugging Face tokenizers
// and transformers: qwen3 and smollm2 are the genuine tokenizers, tiny-qwen
// and tiny-smol small ones of the same kinds, where merges run out early.
var families = []string{"qwen3", "smollm2", "tiny-qwen", "tiny-smol"}

func readGz(tb testing.TB, path ...string) []byte {
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

func readCases[T any](tb testing.TB, path ...string) []T {
	tb.Helper()
	var out []T
	if err := json.Unmarshal(readGz(tb, path...), &out); err != nil {
		tb.Fatal(err)
	}
	if len(out) == 0 {
		tb.Fatalf("%v: no cases", path)
	}
	return out
}

var (
	loadMu sync.Mutex
	loaded = map[string]*tokenizer.Tokenizer{}
)

func load(tb testing.TB, family string) *tokenizer.Tokenizer {
	tb.Helper()
	loadMu.Lock()
	defer loadMu.Unlock()
	if t := loaded[family]; t != nil {
		return t
	}
	t, err := tokenizer.Parse(readGz(tb, family, "tokenizer.json.gz"))
	if err != nil {
		tb.Fatal(err)
	}
	loaded[family] = t
	return t
}

type encodeCase struct {
	Text               string  `json:"text"`
	IDs                []int32 `json:"ids"`
	Decoded            string  `json:"decoded"`
	DecodedSkipSpecial *string `json:"decoded_skip_special"`
	IDsSpecialAsText   []int32 `json:"ids_special_as_text"`
	BytesRoundTrip     bool    `json:"bytes_round_trip"`
}

func TestEncodeGoldens(t *testing.T) {
	for _, family := range families {
		t.Run(family, func(t *testing.T) { checkEncode(t, load(t, family), family) })
	}
}

// checkEncode runs all encode goldens of a family.
func checkEncode(t *testing.T, tok *tokenizer.Tokenizer, family string) {
	t.Helper()
	checkCases(t, tok, readCases[encodeCase](t, family, "encode.json.gz"))
}

func checkCases(t *testing.T, tok *tokenizer.Tokenizer, cases []encodeCase) {
	t.Helper()
	for _, c := range cases {
		if got := tok.Encode(c.Text, true); !slices.Equal(got, c.IDs) {
			t.Errorf("Encode(%q) = %v, want %v", c.Text, got, c.IDs)
		}
		asText := c.IDsSpecialAsText
		if asText == nil {
			asText = c.IDs
		}
		if got := tok.Encode(c.Text, false); !slices.Equal(got, asText) {
			t.Errorf("Encode(%q) with special tokens as text = %v, want %v", c.Text, got, asText)
		}
		if got := tok.Decode(c.IDs, false); got != c.Decoded {
			t.Errorf("Decode(%v) = %q, want %q", c.IDs, got, c.Decoded)
		}
		if c.BytesRoundTrip && c.Decoded != c.Text {
			t.Errorf("golden %q: decoded %q though it round-trips", c.Text, c.Decoded)
		}
		skipped := c.Decoded
		if c.DecodedSkipSpecial != nil {
			skipped = *c.DecodedSkipSpecial
		}
		if got := tok.Decode(c.IDs, true); got != skipped {
			t.Errorf("Decode(%v) without special tokens = %q, want %q", c.IDs, got, skipped)
		}
	}
}

// TestVariantGoldens covers settings that the four tokenizers do not use;
// testdata/variants.py made them with the reference.
func TestVariantGoldens(t *testing.T) {
	for _, v := range readCases[struct {
		Name      string          `json:"name"`
		Tokenizer json.RawMessage `json:"tokenizer"`
		Cases     []encodeCase    `json:"cases"`
	}](t, "variants.json.gz") {
		t.Run(v.Name, func(t *testing.T) {
			tok, err := tokenizer.Parse(v.Tokenizer)
			if err != nil {
				t.Fatal(err)
			}
			checkCases(t, tok, v.Cases)
		})
	}
}

func TestInvalidUTF8Goldens(t *testing.T) {
	for _, family := range families {
		t.Run(family, func(t *testing.T) {
			tok := load(t, family)
			for _, c := range readCases[struct {
				Bytes string  `json:"bytes_hex"`
				Text  string  `json:"replaced"`
				IDs   []int32 `json:"ids"`
			}](t, family, "invalid_utf8.json.gz") {
				raw, err := hex.DecodeString(c.Bytes)
				if err != nil {
					t.Fatal(err)
				}
				if got := tok.Encode(string(raw), true); !slices.Equal(got, c.IDs) {
					t.Errorf("Encode(% x) = %v, want %v", raw, got, c.IDs)
				}
				if got := tok.Encode(c.Text, true); !slices.Equal(got, c.IDs) {
					t.Errorf("Encode(%q) = %v, want %v", c.Text, got, c.IDs)
				}
			}
		})
	}
}

func TestDecodeGoldens(t *testing.T) {
	for _, family := range families {
		t.Run(family, func(t *testing.T) {
			tok := load(t, family)
			for _, c := range readCases[struct {
				IDs         []int32 `json:"ids"`
				Bytes       string  `json:"bytes_hex"`
				Text        string  `json:"text"`
				SkipSpecial string  `json:"text_skip_special"`
			}](t, family, "decode.json.gz") {
				var raw []byte
				for _, id := range c.IDs {
					raw = append(raw, tok.TokenBytes(id)...)
				}
				if got := hex.EncodeToString(raw); got != c.Bytes {
					t.Errorf("TokenBytes of %v = %s, want %s", c.IDs, got, c.Bytes)
				}
				if got := tok.Decode(c.IDs, false); got != c.Text {
					t.Errorf("Decode(%v) = %q, want %q", c.IDs, got, c.Text)
				}
				if got := tok.Decode(c.IDs, true); got != c.SkipSpecial {
					t.Errorf("Decode(%v) without special tokens = %q, want %q", c.IDs, got, c.SkipSpecial)
				}
			}
		})
	}
}

func TestStreamGoldens(t *testing.T) {
	for _, family := range families {
		t.Run(family, func(t *testing.T) {
			tok := load(t, family)
			for _, c := range readCases[struct {
				IDs    []int32  `json:"ids"`
				Bytes  []string `json:"token_bytes_hex"`
				Chunks []string `json:"chunks"`
				Flush  string   `json:"flush"`
			}](t, family, "stream.json.gz") {
				s, joined := tok.NewStream(false), ""
				for i, id := range c.IDs {
					if got := hex.EncodeToString(tok.TokenBytes(id)); got != c.Bytes[i] {
						t.Errorf("TokenBytes(%d) = %s, want %s", id, got, c.Bytes[i])
					}
					got := s.Push(id)
					if got != c.Chunks[i] {
						t.Errorf("%v: Push(%d) = %q, want %q", c.IDs, id, got, c.Chunks[i])
					}
					joined += got
				}
				got := s.Flush()
				if got != c.Flush {
					t.Errorf("%v: Flush() = %q, want %q", c.IDs, got, c.Flush)
				}
				if got, want := joined+got, tok.Decode(c.IDs, false); got != want {
					t.Errorf("%v: the stream gave %q, Decode %q", c.IDs, got, want)
				}
			}
		})
	}
}
