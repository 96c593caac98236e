// SPDX-License-Identifier: Apache-2.0

// Package gguf reads GGUF model files: the key/value metadata, the tensor
// directory and the tensor data, which it turns into float32 values bit for
// bit as ggml's own reference code does.
//
// It is a reader of outside bytes: every count, length and offset is checked
// against the file's size before it is used, arithmetic on them cannot wrap,
// and nothing is allocated from a number that the file merely claims. Versions
// 2 and 3, little-endian, are read; version 1 and big-endian files are refused
// by name.
//
// The package does not know what a model is: names of keys and tensors mean
// nothing to it. Start with Open, then File.Text, File.Uint … for metadata and
// File.Tensor with File.ReadFloats for weights.
package gguf
