// SPDX-License-Identifier: Apache-2.0

package tokenizer

import "fmt"

// GGUFVocab is the tokenizer of a GGUF file, by its metadata keys.
type GGUFVocab struct {
	Model  string   // tokenizer.ggml.model, "gpt2"
	Pre    string   // tokenizer.ggml.pre
	Tokens []string // tokenizer.ggml.tokens
	Merges []string // tokenizer.ggml.merges, "left right"
	Types  []int32  // tokenizer.ggml.token_type, one a token

	BosID  int  // tokenizer.ggml.bos_token_id, -1 where absent
	EosID  int  // tokenizer.ggml.eos_token_id, -1 where absent
	PadID  int  // tokenizer.ggml.padding_token_id, -1 where absent
	AddBOS bool // tokenizer.ggml.add_bos_token
	AddEOS bool // tokenizer.ggml.add_eos_token
}

// Token types of GGUF.
const (
	ggufNormal      = 1
	ggufUnknown     = 2
	ggufControl     = 3
	ggufUserDefined = 4
	ggufUnused      = 5
)

// ggufFamilies are the values of tokenizer.ggml.pre whose pre-tokenisation
// is known exactly.
var ggufFamilies = map[string]family{
	"gpt-2":     familyGPT2,
	"qwen2":     familyQwen2,
	"smollm":    familySmolLM,
	"llama-bpe": familyLlama3,
}

// GGUFToJSON makes the tokenizer.json that the metadata of a GGUF file
// describes. Control tokens become special ones, user-defined tokens added
// ones, unused ones (padding up to the model's vocabulary) are left out. With
// AddBOS the post-processor sets BosID before a sequence, with AddEOS EosID
// behind it.
//
// A model, pre-tokenizer or token type that is not known exactly is an error
// that names it. What is returned, Parse takes; the same input gives the same
// bytes.
func GGUFToJSON(in GGUFVocab) ([]byte, error) {
	out, err := in.json()
	if err != nil {
		return nil, fmt.Errorf("tokenizer: gguf: %w", err)
	}
	return out, nil
}

func (in *GGUFVocab) json() ([]byte, error) {
	if in.Model != "gpt2" {
		return nil, fmt.Errorf("tokenizer.ggml.model %q is not supported; gpt2 (byte-level BPE) is", in.Model)
	}
	fam, ok := ggufFamilies[in.Pre]
	switch {
	case ok:
	case in.Pre == "" || in.Pre == "default":
		// llama.cpp takes both for a rule of its own, four patterns one after the other,
		// which no model was trained with, and warns; neither is GPT-2's pattern.
		return nil, fmt.Errorf("tokenizer.ggml.pre %q does not say how the model splits text: convert from the Hugging Face directory, or with --bare and add its tokenizer.json by windhover pack", in.Pre)
	default:
		return nil, fmt.Errorf("tokenizer.ggml.pre %q is not supported; qwen2, smollm, gpt-2 and llama-bpe are", in.Pre)
	}
	if len(in.Types) != len(in.Tokens) {
		return nil, fmt.Errorf("tokenizer.ggml.token_type has %d entries for %d tokens", len(in.Types), len(in.Tokens))
	}
	if len(in.Tokens) > maxTokenID {
		return nil, fmt.Errorf("%d tokens is over the limit of %d", len(in.Tokens), maxTokenID)
	}
	for _, id := range []struct {
		key string
		id  int
	}{{"bos", in.BosID}, {"eos", in.EosID}, {"padding", in.PadID}} {
		if id.id < -1 || id.id >= len(in.Tokens) {
			return nil, fmt.Errorf("tokenizer.ggml.%s_token_id %d is not one of %d tokens", id.key, id.id, len(in.Tokens))
		}
	}
	f := new(outFile)
	f.setFamily(fam, false)
	var vocab vocabWriter
	for id, content := range in.Tokens {
		added, special := false, false
		switch in.Types[id] {
		case ggufNormal:
		case ggufUnused:
			continue
		case ggufUserDefined:
			added = true
		case ggufControl, ggufUnknown:
			added, special = true, true
		default:
			return nil, fmt.Errorf("token %d, %.40q, has type %d, which byte-level BPE does not know", id, content, in.Types[id])
		}
		if err := vocab.add(content, id); err != nil {
			return nil, err
		}
		if added {
			f.AddedTokens = append(f.AddedTokens, outAdded{ID: int32(id), Content: content, Special: special})
		}
	}
	f.Model.Vocab = vocab.json()
	for _, line := range in.Merges {
		if err := f.addMerge(line); err != nil {
			return nil, err
		}
	}
	before, err := in.around("bos", in.AddBOS, in.BosID)
	if err != nil {
		return nil, err
	}
	behind, err := in.around("eos", in.AddEOS, in.EosID)
	if err != nil {
		return nil, err
	}
	if len(before)+len(behind) > 0 {
		f.setTemplate(before, behind)
	}
	return f.bytes()
}

// around is the token that is set at an end of every sequence, if one is.
func (in *GGUFVocab) around(name string, set bool, id int) ([]around, error) {
	switch {
	case !set:
		return nil, nil
	case id < 0:
		return nil, fmt.Errorf("tokenizer.ggml.add_%s_token is set, but there is no %s_token_id", name, name)
	}
	return []around{{in.Tokens[id], int32(id)}}, nil
}
