// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

import (
	"encoding/binary"

	"golang.org/x/sys/cpu"
)

var useVNNI, useAVX512, useAVX2 bool

var features = []feature{
	{"vnni", &useVNNI, cpu.X86.HasAVX512VNNI},
	{"avx512", &useAVX512, cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ},
	{"avx2", &useAVX2, cpu.X86.HasAVX2 && cpu.X86.HasF16C && cpu.X86.HasFMA},
}

// vendor is the maker as the CPU spells it, such as "AuthenticAMD".
func vendor() string {
	b, d, c := cpuid0()
	name := binary.LittleEndian.AppendUint32(nil, b)
	name = binary.LittleEndian.AppendUint32(name, d)
	return string(binary.LittleEndian.AppendUint32(name, c))
}

func cpuid0() (b, d, c uint32)

var implementations = []implementation{
	{"matmul q8 8x8", "vnni"},
	{"matmul q8 8x8", "avx2"},
	{"matmul q8 4x4", "vnni"},
	{"matmul q8 4x4", "avx2"},
	{"matmul q8 row", "vnni"},
	{"matmul q8 row", "avx2"},
	{"matmul q4 4x4", "vnni"},
	{"matmul q4 4x4", "avx2"},
	{"matmul q4 row", "vnni"},
	{"matmul q4 row", "avx2"},
	{"gemm q8 8x8", "vnni"},
	{"gemm q8 8x8", "avx2"},
	{"gemm q8 4x4", "vnni"},
	{"gemm q8 4x4", "avx2"},
	{"gemm q8 row", "vnni"},
	{"gemm q8 row", "avx2"},
	{"gemm q4 4x4", "vnni"},
	{"gemm q4 4x4", "avx2"},
	{"gemm q4 row", "vnni"},
	{"gemm q4 row", "avx2"},
	{"quantize", "avx2"},
	{"dot", "avx2"},
	{"rmsnorm", "avx2"},
	{"rope", "avx2"},
	{"silu", "avx512"},
	{"silu", "avx2"},
	{"add", "avx2"},
	{"add scaled", "avx2"},
	{"attention product", "avx512"},
	{"attention product", "avx2"},
	{"attention weights", "avx512"},
	{"attention weights", "avx2"},
	{"attention merge", "avx2"},
	{"kv int8", "avx2"},
	{"f32 to f16", "avx2"},
	{"f16 to f32", "avx2"},
	{"quantize weights", "avx2"},
	{"block error", "avx2"},
	{"sum words", "avx512"},
	{"sum words", "avx2"},
	{"peak int8", "vnni"},
	{"peak int8", "avx2"},
	{"peak f32", "avx512"},
	{"peak f32", "avx2"},
}
