// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

import "golang.org/x/sys/cpu"

// useSDOT: the int8 dot product instructions (ASIMDDP, Armv8.2; Cortex-A55 and
// A75 on). useNEON: Advanced SIMD, which every arm64 Linux has; masking it
// leaves generic Go.
var useSDOT, useNEON bool

var features = []feature{
	{"sdot", &useSDOT, cpu.ARM64.HasASIMDDP},
	{"neon", &useNEON, cpu.ARM64.HasASIMD},
}

var implementations = []implementation{
	{"matmul q8 8x8", "sdot"}, {"matmul q8 8x8", "neon"},
	{"matmul q8 4x4", "sdot"}, {"matmul q8 4x4", "neon"},
	{"matmul q8 row", "sdot"}, {"matmul q8 row", "neon"},
	{"matmul q4 4x4", "sdot"}, {"matmul q4 4x4", "neon"},
	{"matmul q4 row", "sdot"}, {"matmul q4 row", "neon"},
	{"gemm q8 8x8", "sdot"}, {"gemm q8 8x8", "neon"},
	{"gemm q8 4x4", "sdot"}, {"gemm q8 4x4", "neon"},
	{"gemm q8 row", "sdot"}, {"gemm q8 row", "neon"},
	{"gemm q4 4x4", "sdot"}, {"gemm q4 4x4", "neon"},
	{"gemm q4 row", "sdot"}, {"gemm q4 row", "neon"},
	{"quantize", "neon"}, {"dot", "neon"}, {"rmsnorm", "neon"}, {"rope", "neon"},
	{"silu", "neon"}, {"add", "neon"}, {"add scaled", "neon"},
	{"attention product", "neon"}, {"attention weights", "neon"}, {"attention merge", "neon"}, {"kv int8", "neon"},
	{"f32 to f16", "neon"}, {"f16 to f32", "neon"},
	{"quantize weights", "neon"}, {"block error", "neon"}, {"sum words", "neon"},
	{"peak int8", "sdot"}, {"peak int8", "neon"}, {"peak f32", "neon"},
}
