// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Pages that the package installs link to pages that it installs, and to headings that
// these have.
func TestInstalledPagesLinkToInstalledOnes(t *testing.T) {
	root := filepath.Join("..", "..")
	contents, err := os.ReadFile(filepath.Join(root, "nfpm.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	pages, headings := map[string]string{}, map[string]map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^    dst: /usr/share/doc/windhover/(\w+\.md)\.gz$`).FindAllStringSubmatch(string(contents), -1) {
		page, err := os.ReadFile(filepath.Join(root, "docs", m[1]))
		if err != nil {
			t.Fatal(err)
		}
		pages[m[1]], headings[m[1]] = string(page), headingsOf(string(page))
	}
	link, links := regexp.MustCompile(`\]\(([^)#]*)(?:#([^)]*))?\)`), 0
	for name, page := range pages {
		for _, m := range link.FindAllStringSubmatch(page, -1) {
			to, heading := m[1], m[2]
			if strings.Contains(to, "://") || to == "" && heading == "" {
				continue
			}
			if to == "" {
				to = name
			}
			links++
			switch {
			case headings[to] == nil:
				t.Errorf("%s links to %q, which the package does not install", name, to)
			case heading != "" && !headings[to][heading]:
				t.Errorf("%s links to %s#%s, and there is no such heading", name, to, heading)
			}
		}
	}
	if len(pages) < 6 || links < 40 {
		t.Errorf("%d pages with %d links were looked at", len(pages), links)
	}
}

// headingsOf are the headings of a page as links name them.
func headingsOf(page string) map[string]bool {
	list, code := map[string]bool{}, false
	other := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if text := strings.TrimLeft(line, "#"); !code && text != line && strings.HasPrefix(text, " ") {
			text = other.ReplaceAllString(strings.ToLower(strings.TrimSpace(text)), "")
			list[strings.ReplaceAll(text, " ", "-")] = true
		}
	}
	return list
}
