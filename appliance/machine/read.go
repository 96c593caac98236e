// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// line is the first line of a small file, "" where there is none.
func line(root fs.FS, name ...string) string {
	data, err := fs.ReadFile(root, path.Join(name...))
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
