// SPDX-License-Identifier: Apache-2.0

// Package safetensors reads model weights in the safetensors format: one file
// or the numbered shards of a Hugging Face directory.
//
// It accepts what the format's reference reader (the Rust crate, 0.8) accepts: a JSON
// header of at most 100 MB, in which of two tensors of one name the last counts, a map
// of metadata from strings to strings or null, there at most once, and attributes that
// nobody knows; tensors that tile the data area exactly, with no overlap, no hole and
// nothing after them, and byte counts equal to shape times element size. It refuses
// what the format does not have though that reader takes it, white space before the
// '{' and arrays in place of objects, and more of anything than any model needs, where
// that reader takes memory without bound. Every number is checked against the file
// before it is used. Values of type F32, F16 and BF16 can be read; other element types
// are known by size only, so that a file holding one for something unrelated opens.
//
// The package does not know what a model is. Start with OpenModel for a
// directory or Open for one file, then Tensor and ReadFloats.
package safetensors
