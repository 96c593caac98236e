// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

import "golang.org/x/sys/cpu"

var useSDOT, useNEON bool

var features = []feature{
	{"sdot", &useSDOT, cpu.ARM64.HasASIMDDP},
	{"neon", &useNEON, cpu.ARM64.HasASIMD},
}

var implementations = []implementation{}
