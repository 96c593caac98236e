// SPDX-License-Identifier: Apache-2.0

// Package vision turns pictures into what the text model of a Qwen3-VL reads:
// an embedding for each place of the picture, features for the first text
// layers (DeepStack), and the positions of a prompt's tokens on three axes.
//
// [Decode] makes pixels of a file, within limits that hold before memory is
// spent. [Config.Still] and [Config.Film] resize them and give [Patches].
// [Open] binds the tower in a VQF file, [Tower.Encode] runs it. [Positions]
// places text and pictures.
//
// The package knows no prompt and no token but the ids of places; the pool of
// workers is its caller's. As everywhere in the engine a result depends on file
// and picture alone: not on the number of workers, nor on the kernels in use.
package vision
