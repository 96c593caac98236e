// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"windhover/engine/pooling"
	"windhover/engine/tokenizer"
)

// metaBeside reads what Hugging Face files in dir say: tokenizer_config.json,
// chat_template.jinja, generation_config.json, modules.json with what it names, each
// of which may be missing.
func metaBeside(dir string, tok *tokenizer.Tokenizer) (*Meta, error) {
	m := &Meta{BosID: -1, EosID: -1}
	read := func(name string, into any) error {
		path := filepath.Join(dir, name)
		data, err := readBeside(path)
		if err != nil || data == nil {
			return err
		}
		if err := json.Unmarshal(data, into); err != nil {
			return fmt.Errorf("engine: %s: %v", path, err)
		}
		return nil
	}
	var conf struct {
		ChatTemplate templateField `json:"chat_template"`
		BosToken     tokenField    `json:"bos_token"`
		EosToken     tokenField    `json:"eos_token"`
		AddBOS       bool          `json:"add_bos_token"`
	}
	if err := read("tokenizer_config.json", &conf); err != nil {
		return nil, err
	}
	m.ChatTemplate, m.AddBOS = string(conf.ChatTemplate), conf.AddBOS
	m.BosToken, m.EosToken = string(conf.BosToken), string(conf.EosToken)
	jinja, err := readBeside(filepath.Join(dir, "chat_template.jinja"))
	if err != nil {
		return nil, err
	}
	if jinja != nil {
		m.ChatTemplate = string(jinja)
	}
	var gen struct {
		Generation
		Penalty *float32 `json:"repetition_penalty"`
		EosID   idsField `json:"eos_token_id"`
	}
	if err := read("generation_config.json", &gen); err != nil {
		return nil, err
	}
	if n := len(gen.EosID); n > maxStopIDs {
		return nil, fmt.Errorf("engine: %s: eos_token_id has %d ids, the most is %d", filepath.Join(dir, "generation_config.json"), n, maxStopIDs)
	}
	m.Generation = gen.Generation
	m.Generation.RepeatPenalty = gen.Penalty
	m.StopIDs = gen.EosID
	m.Pooling, err = pooling.Read(func(name string) ([]byte, error) {
		return readBeside(filepath.Join(dir, filepath.FromSlash(name)))
	})
	if err != nil {
		return nil, fmt.Errorf("engine: %s: %w", dir, err)
	}
	if tok != nil {
		m.resolve(tok)
	}
	return m, nil
}

// resolve finds the ids of the tokens that are given by name.
func (m *Meta) resolve(tok *tokenizer.Tokenizer) {
	if id, ok := tok.ID(m.BosToken); ok && m.BosToken != "" {
		m.BosID = id
	}
	if id, ok := tok.ID(m.EosToken); ok && m.EosToken != "" {
		m.EosID = id
		for _, stop := range m.StopIDs {
			if stop == id {
				return
			}
		}
		m.StopIDs = append(m.StopIDs, id)
	}
}

// tokenField is a token by name: a string, an object with its content, or null.
type tokenField string

// UnmarshalJSON takes all three forms.
func (t *tokenField) UnmarshalJSON(data []byte) error {
	var object struct {
		Content string `json:"content"`
	}
	if len(data) > 0 && data[0] == '{' {
		err := json.Unmarshal(data, &object)
		*t = tokenField(object.Content)
		return err
	}
	return json.Unmarshal(data, (*string)(t))
}

// templateField is a chat template, or a list of named ones of which "default"
// counts.
type templateField string

// UnmarshalJSON takes both forms.
func (t *templateField) UnmarshalJSON(data []byte) error {
	if len(data) == 0 || data[0] != '[' {
		return json.Unmarshal(data, (*string)(t))
	}
	var list []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	err := json.Unmarshal(data, &list)
	for _, named := range list {
		if named.Name == "default" {
			*t = templateField(named.Template)
		}
	}
	return err
}

// idsField is a token id, a list of them, or null.
type idsField []int32

// UnmarshalJSON takes all three forms.
func (f *idsField) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]int32)(f))
	}
	var id *int32
	if err := json.Unmarshal(data, &id); err != nil || id == nil {
		return err
	}
	*f = []int32{*id}
	return nil
}
