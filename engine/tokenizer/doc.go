// SPDX-License-Identifier: Apache-2.0

// Package tokenizer turns text into token ids and back as the Hugging Face
// tokenizers of the Qwen2, Qwen3, SmolLM, GPT-2 and Llama 3 families do
// (byte-level BPE), and writes chats out by the templates that come with them,
// which package jinja interprets.
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
package tokenizer
