// SPDX-License-Identifier: Apache-2.0

// Package vqf reads and writes VQF, the weight format this appliance serves:
// a header, a directory, and tensors already laid out for the kernels, so that
// loading is mapping, checking and pointing. docs/FORMAT.md is the format;
// comments here cite its sections.
//
// Reading starts with [Open], which checks the structure, the size and the
// flags and maps the file without touching its data; [File.Data] and
// [File.Floats] hand out views of the mapping. [Inspect] shows what it can of a
// file that Open refuses, and [Verify] checks all that can be checked. Encrypted
// files are deciphered into memory, or piece by piece by [File.ReadTensor].
// Writing starts with [NewPlan], which derives every entry from the
// architecture alone, and [Create], which takes the bytes in that order and
// puts the finished file in place only after reading it back; [CreateWith]
// encrypts and signs. [Reseal] does that to files that exist.
//
// The package moves no weights: quantising and re-laying-out are package
// kernels' business, and a file's bytes are never changed at load. Keys and
// primitives are those of package seal.
package vqf
