// SPDX-License-Identifier: Apache-2.0

// Seed-model writes a model of a published shape with made-up weights, for
// measuring without the model itself. A Hugging Face directory in BF16 is what
// conversions are measured with:
//
//	go run ./scripts/seed-model -shape qwen3-vl-2b -o /var/tmp/seed-2b
//
// A GGUF file, every matrix and the embedding in one type, is what llama.cpp's
// llama-bench runs beside `windhover bench --shape`:
//
//	go run ./scripts/seed-model -gguf q8_0 -shape qwen3-0.6b -o /var/tmp/0.6b-q8_0.gguf
//	llama-bench -m /var/tmp/0.6b-q8_0.gguf -p 512 -n 64 -t 1
//
// A VQF file, as a conversion to that mode would have it, is what is measured where
// the model itself, or its conversion, would not fit the disk:
//
//	go run ./scripts/seed-model -vqf q4 -shape qwen3-30b-a3b -o /var/tmp/30b-a3b.vqf
//
// The shapes of embedding models are laid out as Qwen3-Embedding is, and so is what
// lies beside the weights; the small one is for trying /v1/embeddings:
//
//	go run ./scripts/seed-model -vqf q8 -shape tiny-embedding -o /var/tmp/tiny-embedding.vqf
//
// The values depend on the seed and on nothing else. Every byte is written, so
// that no hole of a sparse file makes reading cheaper than it is. They have the
// deviation of trained weights, those in BF16 their bell's shape too; the norms
// are near 1. There is no vocabulary in the GGUF file, only its size.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"windhover/vqf"
)

func main() {
	name := flag.String("shape", "qwen3-vl-2b", "one of "+strings.Join(names(), ", "))
	out := flag.String("o", "", "directory to make, or file with -gguf")
	seed := flag.Uint64("seed", 1, "of the values")
	gguf := flag.String("gguf", "", "write a GGUF file of this type, q8_0 or q4_0")
	mode := flag.String("vqf", "", "write a VQF file of this mode, q4, q8 or dual")
	flag.Parse()
	s, ok := shapes[*name]
	typ, known := blockTypes[*gguf]
	if !ok || *out == "" || flag.NArg() > 0 || *gguf != "" && (!known || *mode != "") {
		flag.Usage()
		os.Exit(2)
	}
	if s.experts > 0 && *mode == "" {
		fmt.Fprintln(os.Stderr, "seed-model: a mixture of experts is written as VQF only: add -vqf q4")
		os.Exit(2)
	}
	make := func() error { return write(*out, s, *seed) }
	switch {
	case known:
		make = func() error { return writeGGUF(*out, *name, s, typ, *seed) }
	case *mode != "":
		make = func() error { return writeVQF(*out, s, vqf.Mode(*mode), *seed) }
	}
	if err := make(); err != nil {
		fmt.Fprintln(os.Stderr, "seed-model:", err)
		os.Exit(1)
	}
}
