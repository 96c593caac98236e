// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

import "golang.org/x/sys/cpu"

var useVNNI, useAVX512, useAVX2 bool

var features = []feature{
	{"vnni", &useVNNI, cpu.X86.HasAVX512VNNI},
	{"avx512", &useAVX512, cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ},
	{"avx2", &useAVX2, cpu.X86.HasAVX2 && cpu.X86.HasF16C},
}

var implementations = []implementation{}
