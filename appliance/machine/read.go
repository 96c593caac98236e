// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// mostBytes are more than any file here has, of the size that the kernel allows them.
const mostBytes = 4096

// line is the first line of a small file, "" where there is none.
func line(root fs.FS, name ...string) string {
	f, err := root.Open(path.Join(name...))
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // nothing was written
	data, err := io.ReadAll(io.LimitReader(f, mostBytes))
	if err != nil {
		return ""
	}
	text, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSpace(text)
}

// number is what a file says; false where it says none.
func number(root fs.FS, name ...string) (int64, bool) {
	n, err := strconv.ParseInt(line(root, name...), 10, 64)
	return n, err == nil
}

// entries are the names in dir that begin with prefix, those with numbers in the order
// of the numbers.
func entries(root fs.FS, dir, prefix string) []string {
	list, err := fs.ReadDir(root, dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range list {
		if strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return len(a) - len(b) })
	return names
}
