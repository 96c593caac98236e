// SPDX-License-Identifier: Apache-2.0

package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// FromVocabMerges makes a tokenizer of the older three files: vocab.json
// (content -> id), merges.txt (a merge a line, best first) and
// tokenizer_config.json, which names the kind (Qwen2Tokenizer or
// GPT2Tokenizer) and holds the added tokens. Other kinds are refused by name.
func FromVocabMerges(vocabJSON, mergesTxt, configJSON []byte) (*Tokenizer, error) {
	out, err := VocabMergesToJSON(vocabJSON, mergesTxt, configJSON)
	if err != nil {
		return nil, err
	}
	return Parse(out)
}

// VocabMergesToJSON makes the tokenizer.json of the files of
// FromVocabMerges.
func VocabMergesToJSON(vocabJSON, mergesTxt, configJSON []byte) ([]byte, error) {
	out, err := vocabMerges(vocabJSON, mergesTxt, configJSON)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: vocab.json, merges.txt: %w", err)
	}
	return out, nil
}

// tokenizerConfig is the part of tokenizer_config.json that bears on ids.
type tokenizerConfig struct {
	Class             string              `json:"tokenizer_class"`
	AddPrefixSpace    bool                `json:"add_prefix_space"`
	AddBOS            bool                `json:"add_bos_token"`
	AddedTokens       map[string]outAdded `json:"added_tokens_decoder"`
	Bos               configToken         `json:"bos_token"`
	Eos               configToken         `json:"eos_token"`
	Unk               configToken         `json:"unk_token"`
	Pad               configToken         `json:"pad_token"`
	AdditionalSpecial []configToken       `json:"additional_special_tokens"`
}

// configToken is written as a string, an object with its content, or null.
type configToken string

func (c *configToken) UnmarshalJSON(raw []byte) error {
	var o struct {
		Content string `json:"content"`
	}
	if len(raw) > 0 && raw[0] == '{' {
		if err := json.Unmarshal(raw, &o); err != nil {
			return err
		}
		*c = configToken(o.Content)
		return nil
	}
	return json.Unmarshal(raw, (*string)(c))
}

func vocabMerges(vocabJSON, mergesTxt, configJSON []byte) ([]byte, error) {
	if n := len(vocabJSON) + len(mergesTxt) + len(configJSON); n > maxFileBytes {
		return nil, fmt.Errorf("%d bytes is over the limit of %d", n, maxFileBytes)
	}
	var c tokenizerConfig
	if len(configJSON) == 0 {
		return nil, fmt.Errorf("tokenizer_config.json is needed beside them: it names the tokenizer's kind and its special tokens")
	}
	if err := json.Unmarshal(configJSON, &c); err != nil {
		return nil, fmt.Errorf("tokenizer_config.json: %w", err)
	}
	var vocab map[string]int32
	if err := json.Unmarshal(vocabJSON, &vocab); err != nil {
		return nil, fmt.Errorf("vocab.json: %w", err)
	}
	f := new(outFile)
	switch strings.TrimSuffix(c.Class, "Fast") {
	case "Qwen2Tokenizer":
		f.setFamily(familyQwen2, c.AddPrefixSpace)
	case "GPT2Tokenizer":
		f.setFamily(familyGPT2, c.AddPrefixSpace)
	default:
		return nil, fmt.Errorf("tokenizer_class %q is not supported without a tokenizer.json; Qwen2Tokenizer and GPT2Tokenizer are", c.Class)
	}
	f.Model.Vocab = vocabJSON
	for line := range strings.Lines(string(mergesTxt)) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" || strings.HasPrefix(line, "#version") {
			continue
		}
		if err := f.addMerge(line); err != nil {
			return nil, err
		}
	}
	ids, err := f.addConfigTokens(&c, vocab)
	if err != nil {
		return nil, err
	}
	if c.AddBOS && c.Bos != "" {
		f.setTemplate([]around{{string(c.Bos), ids[string(c.Bos)]}}, nil)
	}
	return f.bytes()
}

// addConfigTokens enters the added tokens and returns the ids of all of them.
func (f *outFile) addConfigTokens(c *tokenizerConfig, vocab map[string]int32) (map[string]int32, error) {
	ids := make(map[string]int32)
	for key, a := range c.AddedTokens {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("added_tokens_decoder: %q is no token id", key)
		}
		a.ID = int32(id)
		ids[a.Content] = a.ID
		f.AddedTokens = append(f.AddedTokens, a)
	}
	slices.SortFunc(f.AddedTokens, func(a, b outAdded) int { return int(a.ID) - int(b.ID) })
	// Older configurations name special tokens only by what they are for.
	for _, token := range append([]configToken{c.Bos, c.Eos, c.Unk, c.Pad}, c.AdditionalSpecial...) {
		content := string(token)
		if _, ok := ids[content]; ok || content == "" {
			continue
		}
		id, ok := vocab[content]
		if !ok {
			return nil, fmt.Errorf("special token %q has no id: neither vocab.json nor added_tokens_decoder has it", content)
		}
		ids[content] = id
		f.AddedTokens = append(f.AddedTokens, outAdded{ID: id, Content: content, Special: true})
	}
	return ids, nil
}
