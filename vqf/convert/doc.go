// SPDX-License-Identifier: Apache-2.0

// Package convert turns a model as it is published, a Hugging Face directory
// or a GGUF file, into a VQF file.
//
// The way of a tensor is source type, float32, quantised blocks, the kernels'
// layout. Everything that could go wrong is looked at before the first byte is
// written: the architecture and each of its settings, name, shape and type of
// every tensor, tokenizer and metadata. What the format or the engine cannot
// express is refused by name, never dropped: a model that is converted computes
// what the source computes, up to the rounding of its weights.
//
// The bytes depend on the source and the options alone, not on the number of
// threads, the size of the pieces or the machine. Memory is bounded by the
// pieces in work, whatever the size of the model.
//
// Start with Run. Architectures: qwen3, llama, qwen3moe and qwen3vl, whose vision
// tower comes from the directory or from the projector file beside a GGUF file.
package convert
