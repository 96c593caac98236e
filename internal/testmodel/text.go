// SPDX-License-Identifier: Apache-2.0

package testmodel

import (
	"encoding/json"
	"fmt"
)

// Template is the chat template, in the manner of ChatML. With enable_thinking
// the answer begins with an opened thinking marker.
const Template = `{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endfor %}` +
	`{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}` +
	`{%- if enable_thinking is defined and enable_thinking %}{{ '<think>' }}{%- endif %}{%- endif %}`

// Specials are the special tokens in the order of their ids.
var Specials = []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"}

// TokenizerJSON is the tokenizer as Hugging Face's tokenizer.json: byte-level
// BPE without merges, so that every byte is a token.
func TokenizerJSON() []byte { return Config{}.tokenizer() }

// EmbeddingTokenizerJSON is the same of a model of embeddings; see [Config.Embeds].
func EmbeddingTokenizerJSON() []byte { return Config{Embeds: true}.tokenizer() }

// tokenizer is the same with the tokens of a configuration behind the bytes.
func (c Config) tokenizer() []byte {
	vocab := make(map[string]int)
	var added []map[string]any
	add := func(id int, s string, special bool) {
		vocab[s] = id
		added = append(added, map[string]any{
			"id": id, "content": s, "single_word": false, "lstrip": false, "rstrip": false,
			"normalized": false, "special": special,
		})
	}
	for id, s := range Specials {
		add(id, s, id < TokenThink)
	}
	if c.Vision {
		for i, s := range visionTokens {
			add(TokenCount+i, s, true)
		}
	}
	for _, s := range c.Marks {
		add(int(c.TokenOf(s)), s, false)
	}
	spelt := func(s string) string {
		var runes []rune
		for i := range len(s) {
			runes = append(runes, byteRune(int(s[i])))
		}
		return string(runes)
	}
	for b := range 256 {
		vocab[spelt(string([]byte{byte(b)}))] = TokenByte + b
	}
	for _, s := range c.Words {
		vocab[spelt(s)] = int(c.TokenOf(s))
	}
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	var around any
	if c.Embeds {
		around = endOfText()
	}
	return mustJSON(map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": added,
		"normalizer": nil, "pre_tokenizer": level, "post_processor": around, "decoder": level,
		"model": map[string]any{
			"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
			"fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": vocab, "merges": []string{},
		},
	})
}

// endOfText sets <|endoftext|> behind a text.
func endOfText() any {
	type object = map[string]any
	piece := func(kind, id string) object { return object{kind: object{"id": id, "type_id": 0}} }
	end := Specials[0]
	single := []object{piece("Sequence", "A"), piece("SpecialToken", end)}
	return object{"type": "TemplateProcessing", "single": single, "pair": append(single[:2:2], piece("Sequence", "B"), piece("SpecialToken", end)),
		"special_tokens": object{end: object{"id": end, "ids": []int{0}, "tokens": []string{end}}}}
}

// byteRune is the character that stands for a byte in a byte-level vocabulary:
// itself when it prints, else one from U+0100 on.
func byteRune(b int) rune {
	prints := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae }
	if prints(b) {
		return rune(b)
	}
	n := 0
	for i := range b {
		if !prints(i) {
			n++
		}
	}
	return rune(0x100 + n)
}

// meta is the t_meta entry (docs/FORMAT.md).
func (c Config) meta() []byte {
	m := map[string]any{
		"v": 1, "converter": "testmodel", "name": c.Name, "architecture": "qwen3", "chat_template": Template,
		"bos_token": "", "eos_token": "<|im_end|>", "add_bos": false, "bos_id": -1, "eos_id": TokenEnd,
		"stop_ids": []int{TokenEnd}, "generation": map[string]any{"temperature": 0.6, "top_p": 0.95, "top_k": 20},
		"mode": string(c.Mode), "quantiser": "B", "q8_layout": c.Q8.String(), "q4_layout": c.Q4.String(),
		"tied": c.Tied, "context_length": c.MaxSeq,
	}
	if c.Embeds {
		m["pooling"] = "last"
	}
	if c.Vision {
		m["architecture"], m["chat_template"] = "qwen3vl", visionTemplate
		m["vision"] = map[string]any{"min_pixels": MinPixels, "max_pixels": MaxPixels}
	}
	return mustJSON(m)
}

// mustJSON marshals values that this package made.
func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("testmodel: internal error: %v", err))
	}
	return data
}
