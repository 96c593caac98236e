// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"windhover/vqf"
)

func formatDoc(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../docs/FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestDocSections: every section of FORMAT.md that code cites is there.
func TestDocSections(t *testing.T) {
	sections := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#{2,3} (\d+(?:\.\d+)?)\.? `).FindAllStringSubmatch(formatDoc(t), -1) {
		if sections[m[1]] {
			t.Errorf("section %s is there twice", m[1])
		}
		sections[m[1]] = true
	}
	cite := regexp.MustCompile(`FORMAT\.md,?(?:\s|//|#)+sections?(?:\s|//|#)+(\d[\d., ]*(?:and \d[\d.]*)?)`)
	number := regexp.MustCompile(`\d+(?:\.\d+)?`)
	found := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
			return filepath.SkipDir
		}
		switch filepath.Ext(path) {
		case ".go", ".s", ".py":
		default:
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range cite.FindAllStringSubmatch(string(b), -1) {
			for _, n := range number.FindAllString(m[1], -1) {
				if found++; !sections[n] {
					t.Errorf("%s cites section %s, which FORMAT.md has not", path, n)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 30 {
		t.Errorf("only %d citations found: the pattern is broken", found)
	}
}

// TestDocHeader: the header table has the code's fields at the code's offsets.
func TestDocHeader(t *testing.T) {
	doc := formatDoc(t)
	at := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \| (?:u32|f32|i32 × 4) \| (\w+) \|`).FindAllStringSubmatch(doc, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		at[m[2]] = n
	}
	for i, name := range vqf.ArchNames() {
		base, index, array := strings.Cut(strings.TrimSuffix(name, "]"), "[")
		want := 16 + 4*i
		if array {
			k, err := strconv.Atoi(index)
			if err != nil {
				t.Fatal(err)
			}
			want -= 4 * k
		}
		switch got, ok := at[base]; {
		case i >= 41: // the tail's table names them together
		case !ok || got != want:
			t.Errorf("%s: the table says %d (%v), the code %d", base, got, ok, want)
		}
	}
}

// TestDocTensors: the catalogue's tables have every tensor of a full plan.
func TestDocTensors(t *testing.T) {
	doc := formatDoc(t)
	s := specOf(qwen3VL2B(), vqf.ModeQ8, vqf.Layout8x8, 0)
	s.Vision = true
	plan, err := vqf.NewPlan(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range plan.Tensors {
		if !regexp.MustCompile(fmt.Sprintf(`(?m)^\|[^|]*\b%s\b[^|]*\| %s\b`, e.Name, e.Type)).MatchString(doc) {
			t.Errorf("%s (%s) is in no table", e.Name, e.Type)
		}
	}
	for i, name := range vqf.Flags(0x3FF).Names() {
		if row := fmt.Sprintf("| %d | 0x%03X | %s |", i, 1<<i, name); !strings.Contains(doc, row) {
			t.Errorf("no row %q", row)
		}
	}
}
