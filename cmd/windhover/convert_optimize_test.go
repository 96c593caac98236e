// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Of a text only the beginning is read, in whole characters; what is none is
// refused, and the error says where.
func TestCalibrationText(t *testing.T) {
	long := "x" + strings.Repeat("ä", calibrationText) // whose last byte that is read is half an ä
	for _, c := range []struct{ name, content, want, refused string }{
		{"text", "Once upon a tïme\n", "Once upon a tïme\n", ""},
		{"long", long, long[:calibrationText-1], ""},
		{"replacement", "\ufffd is a character", "\ufffd is a character", ""},
		{"nul", "ab\x00c", "", "byte 0x00 at 2"},
		{"latin", "caf\xe9 au lait", "", "byte 0xe9 at 3"},
		{"cut", "caf\xc3", "", "byte 0xc3 at 3"}, // the file ends in half a character
		{"late", strings.Repeat("x", calibrationText-1) + "\x00", "", "byte 0x00 at 4194303"},
	} {
		path := filepath.Join(t.TempDir(), c.name)
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := calibrationOf(newConvert(), path)
		switch {
		case c.refused == "" && (err != nil || got != c.want):
			t.Errorf("%s: %d bytes, want %d: %v", c.name, len(got), len(c.want), err)
		case c.refused != "" && (err == nil || !strings.HasSuffix(err.Error(), c.refused) || !strings.Contains(err.Error(), path)):
			t.Errorf("%s: error %v, want one that ends in %q", c.name, err, c.refused)
		}
	}
	if _, err := calibrationOf(newConvert(), t.TempDir()); err == nil {
		t.Error("a directory is read as text")
	}
}
