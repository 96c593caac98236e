// SPDX-License-Identifier: Apache-2.0

// Package testboard has what the kernels of some machines tell in /proc and /sys, as a
// file system: boards that tests have not got. A machine is a text file in boards, a
// line "path: text" for each line of a file.
package testboard

import (
	"embed"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

//go:embed boards
var boards embed.FS

// Open is a machine of its own, whose files may be changed: "rk3588", "x86" or "vm".
func Open(t testing.TB, name string) fstest.MapFS {
	t.Helper()
	text, err := fs.ReadFile(boards, "boards/"+name+".txt")
	if err != nil {
		t.Fatal(err)
	}
	root := fstest.MapFS{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		path, line, ok := strings.Cut(line, ":")
		if !ok {
			t.Fatalf("board %s: no path: %q", name, path)
		}
		if root[path] == nil {
			root[path] = &fstest.MapFile{Mode: 0o444}
		}
		root[path].Data = append(root[path].Data, strings.TrimPrefix(line, " ")...)
	}
	return root
}

// Set changes the file of a machine at path, or makes it.
func Set(root fstest.MapFS, path, text string) {
	root[path] = &fstest.MapFile{Mode: 0o444, Data: []byte(text + "\n")}
}
