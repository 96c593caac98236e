// SPDX-License-Identifier: Apache-2.0

package tokenizer_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"windhover/engine/tokenizer"
)

// small is a whole tokenizer.json; tests put other values in its places.
const small = `{
"version": "1.0", "truncation": null, "padding": null,
"added_tokens": [{"id":9,"content":"<e>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
"normalizer": {"type":"NFC"},
"pre_tokenizer": {"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},
"post_processor": null,
"decoder": {"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true},
"model": {"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":"","end_of_word_suffix":"","fuse_unk":false,"byte_fallback":false,
  "vocab":{"a":0,"b":1,"ab":2,"Ġ":3,"c":5},
  "merges":["a b"]}
}`

func TestParseSmall(t *testing.T) {
	tok, err := tokenizer.Parse([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tok.VocabSize(), 10; got != want {
		t.Errorf("VocabSize() = %d, want %d", got, want)
	}
	if got, want := tok.Encode("ab a<e>ca", true), []int32{2, 3, 0, 9, 5, 0}; !slices.Equal(got, want) {
		t.Errorf("Encode = %v, want %v", got, want)
	}
	for id, want := range map[int32]string{0: "a", 2: "ab", 3: "Ġ", 9: "<e>", 4: "", 10: "", -1: ""} {
		if got := tok.Token(id); got != want {
			t.Errorf("Token(%d) = %q, want %q", id, got, want)
		}
		if got, ok := tok.ID(want); want != "" && (!ok || got != id) {
			t.Errorf("ID(%q) = %d, %v, want %d", want, got, ok, id)
		}
		if got, want := tok.Special(id), id == 9; got != want {
			t.Errorf("Special(%d) = %v, want %v", id, got, want)
		}
		if got := tok.TokenBytes(id); (got == nil) != (want == "") {
			t.Errorf("TokenBytes(%d) = %v", id, got)
		}
	}
	if got := string(tok.TokenBytes(3)); got != " " {
		t.Errorf("TokenBytes(3) = %q, want a space", got)
	}
	if _, ok := tok.ID("x"); ok {
		t.Error(`ID("x") is there`)
	}
	if got := tok.Decode([]int32{2, 4, 77, -5, 9, 1}, true); got != "abb" {
		t.Errorf("Decode with ids that are no tokens = %q, want %q", got, "abb")
	}
	if before, behind := tok.Prefix(), tok.Suffix(); len(before)+len(behind) != 0 {
		t.Errorf("Prefix() = %v, Suffix() = %v, want none", before, behind)
	}
}

// TestParseRefuses has what must be an error, with what the error must name.
func TestParseRefuses(t *testing.T) {
	bert := `{"type":"BertNormalizer"}`
	for _, c := range []struct{ name, from, to, want string }{
		{"normalizer", `{"type":"NFC"}`, bert, `normalizer: type "BertNormalizer" is not supported`},
		{"normalizer in a sequence", `{"type":"NFC"}`, `{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Lowercase"}]}`, `"Lowercase"`},
		{"sequence in a sequence", `{"type":"NFC"}`, `{"type":"Sequence","normalizers":[{"type":"Sequence","normalizers":[]}]}`, `"Sequence"`},
		{"normalizer with a setting", `{"type":"NFC"}`, `{"type":"NFC","x":1}`, `unknown field "x"`},
		{"pre-tokenizer", `{"type":"ByteLevel","add_prefix_space":false`, `{"type":"Metaspace","add_prefix_space":false`, `pre_tokenizer: type "Metaspace" is not supported`},
		{"no pre-tokenizer", `{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}`, `null`, "no ByteLevel"},
		{"split pattern", `{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}`,
			`{"type":"Split","pattern":{"Regex":"[a-z]+"},"behavior":"Isolated","invert":false}`, `"[a-z]+"`},
		{"split by text", `{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}`,
			`{"type":"Split","pattern":{"String":" "},"behavior":"Isolated","invert":false}`, "plain string"},
		{"split behavior", `{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}`,
			`{"type":"Split","pattern":{"Regex":"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},"behavior":"MergedWithNext","invert":false}`, `"MergedWithNext"`},
		{"after ByteLevel", `{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}`,
			`{"type":"Sequence","pretokenizers":[{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true},{"type":"Digits","individual_digits":true}]}`, `"Digits" after ByteLevel`},
		{"post-processor", `"post_processor": null`, `"post_processor": {"type":"BertProcessing"}`, `post_processor: type "BertProcessing"`},
		{"two sequences", `"post_processor": null`, `"post_processor": {"type":"TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"<e>","type_id":0}},{"Sequence":{"id":"B","type_id":0}}],"pair":[],"special_tokens":{}}`, "special tokens around one sequence"},
		{"two templates", `"post_processor": null`, `"post_processor": {"type":"Sequence","processors":[{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{}},{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{}}]}`, "two TemplateProcessing"},
		{"unknown token behind", `"post_processor": null`, `"post_processor": {"type":"TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"<q>","type_id":0}}],"pair":[],"special_tokens":{}}`, `"<q>" is not in the vocabulary`},
		{"unknown token before", `"post_processor": null`, `"post_processor": {"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<q>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{}}`, `"<q>" is not in the vocabulary`},
		{"decoder", `"decoder": {"type":"ByteLevel"`, `"decoder": {"type":"WordPiece"`, `decoder: type "WordPiece"`},
		{"no decoder", `"decoder": {"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true}`, `"decoder": null`, "decoder: none"},
		{"model", `"type":"BPE"`, `"type":"Unigram"`, `model: type "Unigram" is not supported`},
		{"model setting", `"type":"BPE"`, `"type":"BPE","magic":1`, `unknown key "magic"`},
		{"dropout", `"dropout":null`, `"dropout":0.1`, "dropout 0.1"},
		{"prefix", `"continuing_subword_prefix":""`, `"continuing_subword_prefix":"##"`, `"##"`},
		{"suffix", `"end_of_word_suffix":""`, `"end_of_word_suffix":"</w>"`, `"</w>"`},
		{"byte fallback", `"byte_fallback":false`, `"byte_fallback":true`, "byte_fallback"},
		{"unknown token", `"unk_token":null`, `"unk_token":"<u>"`, `unk_token "<u>"`},
		{"no vocabulary", `"vocab":{"a":0,"b":1,"ab":2,"Ġ":3,"c":5}`, `"vocab":null`, "vocab is missing"},
		{"empty vocabulary", `"vocab":{"a":0,"b":1,"ab":2,"Ġ":3,"c":5}`, `"vocab":{}`, "vocab: empty"},
		{"no merges", `"merges":["a b"]`, `"merges":null`, "merges are missing"},
		{"huge id", `"c":5`, `"c":4294967296`, "token id over"},
		{"negative id", `"c":5`, `"c":-1`, "no whole number"},
		{"fraction", `"c":5`, `"c":5.5`, "expected"},
		{"shared id", `"c":5`, `"c":0`, "id 0 belongs to two tokens"},
		{"token twice", `"c":5`, `"a":5`, `token "a" has two ids`},
		{"merge of three", `["a b"]`, `[["a","b","c"]]`, "3 parts"},
		{"merge of one", `["a b"]`, `[["a"]]`, "1 parts"},
		{"merge without space", `["a b"]`, `["ab"]`, "not two parts"},
		{"merge of what is not there", `["a b"]`, `["a z"]`, "entry 0"},
		{"merge into what is not there", `["a b"]`, `["a b","b a"]`, "entry 1"},
		{"added token with the id of another", `{"id":9,`, `{"id":5,`, "id 5 belongs to two tokens"},
		{"added token with another id", `"content":"<e>"`, `"content":"c"`, `token "c" has id 9, but 5`},
		{"added token without a setting", `"lstrip":false,`, ``, "entry 0: a field is missing"},
		{"added token with more settings", `"lstrip":false,`, `"lstrip":false,"x":1,`, `unknown field "x"`},
		{"empty added token", `"content":"<e>"`, `"content":""`, "length 0"},
		{"long added token", `"content":"<e>"`, `"content":"` + strings.Repeat("x", 300) + `"`, "length 300"},
		{"added token's huge id", `{"id":9,`, `{"id":1048576,`, "is not in 0.."},
		{"version", `"version": "1.0"`, `"version": "2.0"`, `version "2.0"`},
		{"unknown key", `"version": "1.0"`, `"version": "1.0", "more": {}`, `unknown key "more"`},
		{"key twice", `"version": "1.0"`, `"version": "1.0", "version": "1.0"`, `"version" appears twice`},
		{"cut off", `"merges":["a b"]}
}`, `"merges":["a b"`, "invalid JSON at byte"},
		{"text after the end", "\n}", "\n} x", "text after the end"},
		{"control character", `"c":5`, "\"c\x01\":5", "control character"},
		{"lone surrogate", `"c":5`, `"\ud800":5`, "bad \\u escape"},
		{"not UTF-8", `"c":5`, "\"\xff\":5", "not UTF-8"},
		{"deep", `"truncation": null`, `"truncation": ` + strings.Repeat("[", 10_000), "nested too deep"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if strings.Count(small, c.from) < 1 {
				t.Fatalf("the test replaces %q, which is not there", c.from)
			}
			_, err := tokenizer.Parse([]byte(strings.Replace(small, c.from, c.to, 1)))
			if err == nil {
				t.Fatalf("no error, want one with %q", c.want)
			}
			if msg := err.Error(); !strings.Contains(msg, c.want) || !strings.HasPrefix(msg, "tokenizer: tokenizer.json: ") || strings.Contains(msg, "\n") {
				t.Errorf("error %q, want one line with %q", msg, c.want)
			}
		})
	}
}

func TestParseEscapes(t *testing.T) {
	in := strings.Replace(small, `"c":5`, `"\u0063":5,"\"\\\/\b\f\n\r\t":6,"\ud83d\ude00":7`, 1)
	tok, err := tokenizer.Parse([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]int32{"c": 5, "\"\\/\b\f\n\r\t": 6, "😀": 7} {
		if got, ok := tok.ID(token); !ok || got != want {
			t.Errorf("ID(%q) = %d, %v, want %d", token, got, ok, want)
		}
	}
}

// TestParsePrefix is Llama 3's way to say which token begins a sequence.
func TestParsePrefix(t *testing.T) {
	in := strings.Replace(small, `"post_processor": null`, `"post_processor": {"type":"Sequence","processors":[
		{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":false,"use_regex":true},
		{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<e>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
		 "pair":[],"special_tokens":{"<e>":{"id":"<e>","ids":[9],"tokens":["<e>"]}}}]}`, 1)
	tok, err := tokenizer.Parse([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tok.Prefix(), []int32{9}; !slices.Equal(got, want) {
		t.Errorf("Prefix() = %v, want %v", got, want)
	}
	if got, want := tok.Encode("a", true), []int32{0}; !slices.Equal(got, want) {
		t.Errorf("Encode = %v, want %v: the prefix is the caller's to add", got, want)
	}
}

// TestParseSuffix is how Qwen3-Embedding says which token ends a text, and one
// with tokens on both sides.
func TestParseSuffix(t *testing.T) {
	for _, c := range []struct {
		name, single   string
		before, behind []int32
	}{
		{"behind", `{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"<e>","type_id":0}}`, nil, []int32{9}},
		{"both sides", `{"SpecialToken":{"id":"c","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"b","type_id":0}},{"SpecialToken":{"id":"<e>","type_id":0}}`,
			[]int32{5}, []int32{1, 9}},
		{"none", `{"Sequence":{"id":"A","type_id":0}}`, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			tok, err := tokenizer.Parse([]byte(strings.Replace(small, `"post_processor": null`, `"post_processor": {"type":"Sequence","processors":[
		{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,"use_regex":false},
		{"type":"TemplateProcessing","single":[`+c.single+`],
		 "pair":[{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"<e>","type_id":0}},{"Sequence":{"id":"B","type_id":0}},{"SpecialToken":{"id":"<e>","type_id":0}}],
		 "special_tokens":{"<e>":{"id":"<e>","ids":[9],"tokens":["<e>"]}}}]}`, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if before, behind := tok.Prefix(), tok.Suffix(); !slices.Equal(before, c.before) || !slices.Equal(behind, c.behind) {
				t.Errorf("Prefix() = %v, Suffix() = %v, want %v and %v", before, behind, c.before, c.behind)
			}
			if got, want := tok.Encode("a", true), []int32{0}; !slices.Equal(got, want) {
				t.Errorf("Encode = %v, want %v: the suffix is the caller's to add", got, want)
			}
			clear(tok.Suffix()) // a copy
			if behind := tok.Suffix(); !slices.Equal(behind, c.behind) {
				t.Errorf("after a change of what it returned Suffix() = %v, want %v", behind, c.behind)
			}
		})
	}
}

// TestParseKeepsNothing changes the input after Parse.
func TestParseKeepsNothing(t *testing.T) {
	raw := readGz(t, "tiny-qwen", "tokenizer.json.gz")
	tok, err := tokenizer.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	clear(raw)
	checkEncode(t, tok, "tiny-qwen")
}

// TestConcurrent encodes from many goroutines at once; go test -race watches.
func TestConcurrent(t *testing.T) {
	tok, err := tokenizer.Parse(readGz(t, "tiny-smol", "tokenizer.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	cases := readCases[encodeCase](t, "tiny-smol", "encode.json.gz")
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range cases {
				c := cases[(i*7+n*31)%len(cases)]
				if got := tok.Encode(c.Text, true); !slices.Equal(got, c.IDs) {
					t.Errorf("Encode(%q) = %v, want %v", c.Text, got, c.IDs)
				}
			}
		})
	}
	wg.Wait()
}

// TestEncodeOwnsResult appends to one result and looks at another.
func TestEncodeOwnsResult(t *testing.T) {
	tok := load(t, "tiny-qwen")
	want := fmt.Sprint(tok.Encode("the end", true))
	first := tok.Encode("the end", true)
	for i := range first {
		first[i] = -1
	}
	if got := fmt.Sprint(tok.Encode("the end", true)); got != want {
		t.Errorf("Encode = %v after its last result was changed, want %v", got, want)
	}
}

func TestTemplateUsesAndVars(t *testing.T) {
	for name, want := range map[string]bool{"qwen3": true, "qwen3-instruct-2507": false, "smollm2": false} {
		if got := readTemplate(t, name).Uses("enable_thinking"); got != want {
			t.Errorf("%s: Uses(enable_thinking) = %v, want %v", name, got, want)
		}
	}
	tpl, err := tokenizer.ParseTemplate("{{ bos_token }}|{{ eos_token }}|{{ pad_token is defined }}|{{ strftime_now('%d %b %Y, %A %%') }}",
		tokenizer.TemplateVars{BOS: "<s>", EOS: "</s>"})
	if err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return time.Date(2026, 7, 4, 9, 8, 7, 0, time.UTC) }
	got, err := tpl.Render(tokenizer.Chat{Now: now})
	if want := "<s>|</s>|False|04 Jul 2026, Saturday %"; err != nil || got != want {
		t.Errorf("Render = %q, %v, want %q", got, err, want)
	}
}

func TestStreamAllocatesNothing(t *testing.T) {
	tok := load(t, "qwen3")
	ids := tok.Encode("The capital of France is Paris.", true)
	s := tok.NewStream(true)
	if got := testing.AllocsPerRun(100, func() {
		for _, id := range ids {
			s.Push(id)
		}
	}); got != 0 {
		t.Errorf("a stream of whole characters allocates %v times, want 0", got)
	}
}
