// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// textList are texts to be embedded, and where each comes from.
type textList struct {
	texts []string
	file  string // "": arguments; else a text for each line
}

// name is what people find a text by, counted from one.
func (l *textList) name(i int) string {
	switch l.file {
	case "":
		return fmt.Sprintf("text %d", i+1)
	case "-":
		return fmt.Sprintf("standard input: line %d", i+1)
	}
	return fmt.Sprintf("%s: line %d", l.file, i+1)
}

// givenTexts are arguments, of which one may be "-" for standard input, of at most limit
// bytes.
func givenTexts(cmd *cobra.Command, given []string, limit int64) (*textList, error) {
	l := &textList{texts: slices.Clone(given)}
	for i, text := range l.texts {
		if text != "-" {
			continue
		}
		if slices.Contains(l.texts[i+1:], "-") {
			return nil, usagef(cmd, "standard input has one text: write - once, or give --file -")
		}
		text, err := readAll(cmd, limit)
		if err != nil {
			return nil, err
		}
		// echo ends a text with a line end, which is not meant.
		l.texts[i] = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
		break
	}
	if i := slices.Index(l.texts, ""); i >= 0 {
		return nil, usagef(cmd, "%s is empty", l.name(i))
	}
	return l, nil
}

// lineTexts are the lines of a file. An empty one is refused rather than passed over:
// vectors are told apart by their place.
func lineTexts(cmd *cobra.Command, path string) (*textList, error) {
	all, err := readText(cmd, path)
	if err != nil {
		return nil, err
	}
	l := &textList{file: path}
	for line := range strings.Lines(all) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if line == "" {
			return nil, fmt.Errorf("%s is empty: each line is a text, take it out", l.name(len(l.texts)))
		}
		l.texts = append(l.texts, line)
	}
	if len(l.texts) == 0 {
		return nil, fmt.Errorf("%s: there are no texts in it", path)
	}
	return l, nil
}
