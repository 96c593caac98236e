// SPDX-License-Identifier: Apache-2.0

// Package tokenizer turns text into token ids and back as the Hugging Face
// tokenizers of the Qwen2, Qwen3, SmolLM, GPT-2 and Llama 3 families do
// (byte-level BPE), and renders the chat templates that come with them.
//
// Start with [Parse] for a tokenizer.json, [FromVocabMerges] for the older
// vocab.json and merges.txt, [GGUFToJSON] for the metadata of a GGUF file,
// and [ParseTemplate] for a chat template. [Tokenizer.NewStream] shows tokens
// as they come without ever splitting a character.
//
// It is no general tokenizer: a normalizer, pre-tokenizer, decoder or model
// that it does not know exactly is refused by name when the file is read,
// because a prompt cut slightly differently from training gives a model that
// works slightly worse, which nobody notices.
//
// All input comes from model files and users, so it is taken as hostile:
// sizes are checked, encoding is O(n log n) in the text, and a template may
// spend a bounded number of steps and bytes.
//
// The Jinja interpreter (jinja_*.go) is our own for that last reason. In the
// libraries looked at, gonja and ardanlabs/jinja, nothing limits a template:
// in gonja, {{ 'a' * 100000000000 }} and a macro that calls itself end the
// whole process, and a missing field of a message passes for an empty text
// where the reference refuses.
package tokenizer
