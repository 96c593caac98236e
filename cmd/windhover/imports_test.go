// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowed says which packages of the module a package may import. A new package
// or a new arrow is added here first, with the reason in the commit. The table
// is explained in docs/DESIGN.md.
var allowed = map[string][]string{
	"kernels":           {},
	"vqf":               {"vqf/seal"},
	"vqf/seal":          {},
	"vqf/gguf":          {},
	"vqf/safetensors":   {},
	"control":           {},
	"control/broker":    {},
	"control/ota":       {"control"},
	"control/fleet":     {"control", "control/ota"},
	"engine/jinja":      {},
	"engine/tokenizer":  {"engine/jinja"},
	"engine/vision":     {"kernels", "vqf"},
	"engine/grammar":    {},
	"engine/pooling":    {},
	"engine":            {"kernels", "vqf", "vqf/seal", "engine/tokenizer", "engine/vision", "engine/grammar", "engine/pooling"},
	"vqf/convert":       {"vqf", "vqf/seal", "vqf/gguf", "vqf/safetensors", "kernels", "engine/tokenizer", "engine/pooling"},
	"appliance/audit":   {"appliance/disk"},
	"appliance/disk":    {},
	"appliance/machine": {},
	"appliance/fetch":   {"control", "control/ota", "appliance/disk"},
	"appliance/rollout": {"control", "control/ota", "appliance/disk"},
	"appliance/update":  {"control", "control/ota", "appliance/disk", "appliance/fetch", "appliance/rollout"},
	"appliance/web":     {"control"},
	"appliance": {
		"appliance/audit", "appliance/disk", "appliance/fetch", "appliance/machine", "appliance/rollout", "appliance/update", "appliance/web", "engine", "engine/tokenizer",
		"control", "control/broker", "control/ota", "vqf", "vqf/seal", "vqf/convert", "kernels",
	},
	"cmd/windhover": {
		"appliance", "appliance/audit", "engine", "engine/tokenizer", "engine/vision", "control", "control/broker", "control/ota", "control/fleet",
		"vqf", "vqf/seal", "vqf/convert", "vqf/gguf", "vqf/safetensors", "kernels",
	},
	"internal/testmodel": {"vqf", "kernels"},
	"internal/testboard": {},
	"internal/testsm2":   {},
	"internal/testdisk":  {"appliance/disk"},
	"internal/testclock": {},
	"internal/testcut":   {"internal/testclock"},
	"scripts/hours":      {},
	"scripts/plot-speed": {},
	"scripts/seed-model": {"internal/testmodel", "kernels", "vqf"},
}

// TestImportDirection parses the module in this process on purpose: what a child
// "go list" reads is invisible to the test cache.
func TestImportDirection(t *testing.T) {
	root := filepath.Join("..", "..")
	seen := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		if ignored(path) {
			return nil
		}
		pkg, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		may, ok := allowed[pkg]
		if !ok {
			t.Errorf("%s: package %s is not in the table", path, pkg)
			return nil
		}
		seen[pkg] = true
		for _, spec := range file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if to, ours := strings.CutPrefix(name, "windhover/"); ours && !slices.Contains(may, to) {
				t.Errorf("%s: package %s may not import %s", path, pkg, to)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range allowed {
		if !seen[pkg] {
			t.Errorf("the table has package %s, the module has not", pkg)
		}
	}
}

// ignored reports a program that is run by hand or by go generate and belongs to no package.
func ignored(path string) bool {
	src, err := os.ReadFile(path)
	return err == nil && strings.Contains(string(src[:min(len(src), 256)]), "//go:build ignore")
}
