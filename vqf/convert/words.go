// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"fmt"
	"slices"

	"windhover/engine/tokenizer"
)

// words is what a source says about its text side; t_meta carries it on.
type words struct {
	name         string
	template     string
	bosToken     string
	eosToken     string
	addBOS       bool
	pooling      string // how embeddings are made (docs/FORMAT.md section 16); "": none
	bosID, eosID int    // -1: none
	stopIDs      []int
	special      map[string]int
	generation   generation
}

// generation is the sampling that a model was published with; what it does
// not say stays out of the file, so that the engine's own default holds.
type generation struct {
	Temperature   *float32 `json:"temperature,omitempty"`
	TopP          *float32 `json:"top_p,omitempty"`
	TopK          *int     `json:"top_k,omitempty"`
	MinP          *float32 `json:"min_p,omitempty"`
	RepeatPenalty *float32 `json:"repeat_penalty,omitempty"`
}

// stop adds an id at which generation ends, once.
func (w *words) stop(id int) {
	if id >= 0 && !slices.Contains(w.stopIDs, id) {
		w.stopIDs = append(w.stopIDs, id)
	}
}

// named are tokens that engine and clients ask for by meaning.
var named = map[string]string{
	"vision_start": "<|vision_start|>",
	"vision_end":   "<|vision_end|>",
	"image_pad":    "<|image_pad|>",
	"video_pad":    "<|video_pad|>",
	"think_start":  "<think>",
	"think_end":    "</think>",
}

// resolve finds the ids of tokens that are known by their text.
func (w *words) resolve(tok *tokenizer.Tokenizer) {
	id := func(token string) int {
		if token != "" {
			if id, ok := tok.ID(token); ok {
				return int(id)
			}
		}
		return -1
	}
	if w.bosID < 0 {
		w.bosID = id(w.bosToken)
	}
	if w.eosID < 0 {
		w.eosID = id(w.eosToken)
	}
	w.stop(w.eosID)
	if w.special == nil {
		w.special = map[string]int{}
	}
	for meaning, token := range named {
		if n := id(token); n >= 0 {
			w.special[meaning] = n
		}
	}
}

// tokenField is a token by its text: a string, an object with its content, or
// null, as tokenizer_config.json has all three.
type tokenField string

// UnmarshalJSON takes the three forms.
func (t *tokenField) UnmarshalJSON(b []byte) error {
	var object struct {
		Content string `json:"content"`
	}
	if len(b) > 0 && b[0] == '{' {
		err := json.Unmarshal(b, &object)
		*t = tokenField(object.Content)
		return err
	}
	return json.Unmarshal(b, (*string)(t))
}

// templateField is a chat template, or a list of named ones of which "default"
// counts.
type templateField string

// UnmarshalJSON takes both forms.
func (t *templateField) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '[' {
		return json.Unmarshal(b, (*string)(t))
	}
	var list []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	for _, l := range list {
		if l.Name == "default" {
			*t = templateField(l.Template)
		}
	}
	return nil
}

// maxIDs is how many tokens may end an answer; published models have up to five.
const maxIDs = 1024

// idsField is a token id, a list of them, or null.
type idsField []int

// UnmarshalJSON takes the three forms.
func (f *idsField) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		err := json.Unmarshal(b, (*[]int)(f))
		if err == nil && len(*f) > maxIDs {
			err = fmt.Errorf("a list of %d token ids, at most %d are read", len(*f), maxIDs)
		}
		return err
	}
	var id *int
	if err := json.Unmarshal(b, &id); err != nil || id == nil {
		return err
	}
	*f = []int{*id}
	return nil
}
