// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"fmt"
	"os"
	"strings"
)

// A feature is something of the CPU that implementations need. Each
// architecture lists its own, in cpu_*.go, from the most to the least
// demanding: a feature needs all those after it, so that masking avx2 masks
// vnni too.
type feature struct {
	name string
	use  *bool // what the if-ladders read
	has  bool  // the CPU has it
}

// An implementation is one assembly version of an operation, as its if-ladder
// chooses it. cpu_*.go lists them in the order of the ladder.
type implementation struct {
	op   string // such as "matmul q8 8x8" or "rmsnorm"
	name string // the feature that selects it
}

// operations are all that have an if-ladder.
var operations = []string{
	"matmul q8 8x8", "matmul q8 4x4", "matmul q8 row", "matmul q4 4x4", "matmul q4 row",
	"gemm q8 8x8", "gemm q8 4x4", "gemm q8 row", "gemm q4 4x4", "gemm q4 row",
	"quantize", "dot", "rmsnorm", "rope", "silu", "add", "add scaled",
	"attention product", "attention weights", "attention merge", "kv int8", "f32 to f16", "f16 to f32",
	"quantize weights", "block error", "sum words", "peak int8", "peak f32",
}

const generic = "generic"

func init() {
	if err := selectFeatures(os.Getenv("KERNELS_DISABLE"), os.Getenv("KERNELS_REQUIRE")); err != nil {
		panic(err.Error())
	}
}

// selectFeatures sets the use flags: what the CPU has less what disable names
// and what needs that. require names features that must then be in use;
// "generic" demands that none is.
func selectFeatures(disable, require string) error {
	masked := names(disable)
	on := true
	for i := len(features) - 1; i >= 0; i-- {
		f := features[i]
		on = on && f.has && !masked[f.name]
		*f.use = on
	}
	for name := range names(require) {
		if !inUse(name) {
			return fmt.Errorf("kernels: KERNELS_REQUIRE=%s: %s is not in use; this CPU has %s; KERNELS_DISABLE=%s",
				require, name, strings.Join(Features(), " "), disable)
		}
	}
	return nil
}

func names(list string) map[string]bool {
	m := make(map[string]bool)
	for _, s := range strings.Split(list, ",") {
		if s = strings.TrimSpace(s); s != "" {
			m[s] = true
		}
	}
	return m
}

func inUse(name string) bool {
	used := false
	for _, f := range features {
		if f.name == name {
			return *f.use
		}
		used = used || *f.use
	}
	return name == generic && !used
}

// Features lists what this CPU has of what the kernels can use, most capable
// first, whether in use or not.
func Features() []string {
	var list []string
	for _, f := range features {
		if f.has {
			list = append(list, f.name)
		}
	}
	return list
}

// Selection is one operation and the implementation that serves it.
type Selection struct {
	Op   string // such as "matmul q8 8x8"
	Impl string // such as "vnni", or "generic"
}

// Selected tells which implementation each operation uses. "matmul" is one
// token, "gemm" several.
func Selected() []Selection {
	list := make([]Selection, 0, len(operations))
	for _, op := range operations {
		s := Selection{op, generic}
		for _, im := range implementations {
			if im.op == op && inUse(im.name) {
				s.Impl = im.name
				break
			}
		}
		list = append(list, s)
	}
	return list
}
