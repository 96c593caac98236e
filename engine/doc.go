// SPDX-License-Identifier: Apache-2.0

// Package engine runs language models from VQF files: it binds the mapped
// weights, computes the forward pass, keeps the KV cache, samples, and turns
// tokens into text.
//
// Start with [Load], then [Model.Generate] for a request, [Model.Logits],
// [Model.Greedy] and [Model.NLL] for evaluation. The architecture is read from
// top to bottom in forward.go; the buffers it works on are in state.go.
//
// A Model may be asked for many things at once: requests are computed beside each
// other (schedule.go), and what their texts begin with alike is kept and shared
// (prefix.go). It is not a server: it knows no sessions and no protocol, and it
// writes no log.
//
// # Determinism
//
// The same file, tokens, seed and options give the same tokens whatever the
// number of threads, the prefill chunk, the layout of the weights, the part of
// the prompt that was still in the cache or the requests that are computed
// beside, and prefill of n tokens leaves
// bit for bit the logits and the KV cache that n single steps leave. Work is
// split so that no floating-point sum is ever split: over rows of a matrix,
// over tokens and over heads. Everything with an order has it written down in
// package kernels.
package engine
