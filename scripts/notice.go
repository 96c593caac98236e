// SPDX-License-Identifier: Apache-2.0

//go:build ignore

// Notice writes NOTICE and packaging/copyright from the modules that are linked
// into cmd/windhover and from the licence files they bring:
//
//	go run scripts/notice.go          writes both files
//	go run scripts/notice.go -check   compares, and fails when they are not up to date
//
// A licence it does not know is an error: somebody has to read it first.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	program  = "./cmd/windhover"
	ours     = "2026 Windhover maintainers"
	head     = "Windhover\nCopyright " + ours + "\n\n"
	testData = `Test data, in the source only: the tokenizers and chat templates in
engine/tokenizer/testdata are those of Qwen3 (Copyright 2024-2025 Alibaba Cloud)
and SmolLM2 (Copyright 2024-2025 Hugging Face), both under the Apache License 2.0.
`
)

// A part is something that is linked in and has a licence file of its own: a
// module, a directory of a module, or Go itself.
type part struct {
	name, version string // as in go.mod; no version for Go
	dir           string
	licence       string // SPDX identifier
	text          string // of the licence; "" where it is in the file LICENSE
	copyright     []string
	notice        string // the NOTICE file that the Apache License wants passed on
}

func main() {
	check := flag.Bool("check", false, "compare instead of writing")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "notice:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	parts, err := linked()
	if err != nil {
		return err
	}
	for i := range parts {
		if err := parts[i].read(); err != nil {
			return fmt.Errorf("%s: %w", parts[i].name, err)
		}
	}
	for path, want := range map[string]string{"NOTICE": noticeFile(parts), "packaging/copyright": copyrightFile(parts)} {
		if !check {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				return err
			}
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if string(got) != want {
			return fmt.Errorf("%s is not what the linked modules say: run: go run scripts/notice.go", path)
		}
	}
	return nil
}

// linked lists the parts of the program on the architectures we ship.
func linked() ([]part, error) {
	goroot, err := output(nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	found := map[string]part{"": {name: "the Go runtime and standard library", dir: strings.TrimSpace(string(goroot))}}
	for _, arch := range []string{"amd64", "arm64"} {
		out, err := output([]string{"GOOS=linux", "GOARCH=" + arch, "CGO_ENABLED=0"}, "go", "list", "-deps", "-json=Dir,Module", program)
		if err != nil {
			return nil, err
		}
		dec := json.NewDecoder(bytes.NewReader(out))
		for {
			var p struct {
				Dir    string
				Module *struct {
					Path, Version, Dir string
					Main               bool
				}
			}
			if err := dec.Decode(&p); err == io.EOF {
				break
			} else if err != nil {
				return nil, err
			}
			if p.Module == nil || p.Module.Main {
				continue
			}
			m := p.Module
			found[m.Path] = part{name: m.Path, version: m.Version, dir: m.Dir}
			// A directory on the way down to the package may have a licence of its own.
			for dir := p.Dir; len(dir) > len(m.Dir); dir = filepath.Dir(dir) {
				if f, err := filepath.Glob(filepath.Join(dir, "LICENSE*")); err == nil && len(f) > 0 {
					name := m.Path + strings.TrimPrefix(dir, m.Dir)
					found[name] = part{name: name, version: m.Version, dir: dir}
				}
			}
		}
	}
	var parts []part
	for _, p := range found {
		parts = append(parts, p)
	}
	slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.name, b.name) })
	// Go comes first, as the largest.
	slices.SortStableFunc(parts, func(a, b part) int { return min(len(a.version), 1) - min(len(b.version), 1) })
	return parts, nil
}

var (
	holder = regexp.MustCompile(`(?m)^\s*(?:Copyright|\(c\)|©).*\d{4}.*$`)
	// Files of klauspost/compress carry the licences of other directories below such a line.
	further = regexp.MustCompile(`(?m)^-{5,}\n+Files: `)
	prefix  = regexp.MustCompile(`^(?i:copyright\s*)?(?i:\(c\)|©)?\s*(?i:copyright\s*)?`)
)

func (p *part) read() error {
	path := filepath.Join(p.dir, "edl-v10") // of two licences on offer, the Eclipse Distribution License, a 3-clause BSD
	if _, err := os.Stat(path); err != nil {
		files, err := filepath.Glob(filepath.Join(p.dir, "LICENSE*"))
		if err != nil || len(files) != 1 {
			return fmt.Errorf("%d licence files, want 1: %v", len(files), files)
		}
		path = files[0]
	}
	text, err := readText(path)
	if err != nil {
		return err
	}
	if i := further.FindStringIndex(text); i != nil {
		text = strings.TrimSpace(text[:i[0]])
	}
	flat := strings.Join(strings.Fields(text), " ")
	switch {
	case strings.Contains(flat, "Apache License Version 2.0, January 2004"):
		p.licence = "Apache-2.0"
	case strings.Contains(flat, "Permission is hereby granted, free of charge"):
		p.licence = "MIT"
	case strings.Contains(flat, "Redistribution and use in source and binary forms") && strings.Contains(flat, "Neither the name"):
		p.licence = "BSD-3-Clause"
	case strings.Contains(flat, "Redistribution and use in source and binary forms"):
		p.licence = "BSD-2-Clause"
	default:
		return fmt.Errorf("%s holds a licence that scripts/notice.go does not know: read it, then teach it", filepath.Base(path))
	}
	if p.licence != "Apache-2.0" {
		p.text = text
	}
	if p.notice, err = readText(filepath.Join(p.dir, "NOTICE")); err != nil {
		return err
	}
	for _, source := range []string{text, p.notice} {
		for _, line := range holder.FindAllString(source, -1) {
			line = strings.TrimSuffix(prefix.ReplaceAllString(strings.TrimSpace(line), ""), " All rights reserved.")
			if !slices.Contains(p.copyright, line) {
				p.copyright = append(p.copyright, line)
			}
		}
	}
	if len(p.copyright) == 0 {
		p.copyright = []string{"the authors of " + p.name}
	}
	return nil
}

// readText is the text of a file without spaces at the ends of its lines; a
// missing file is empty.
func readText(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		if os.IsNotExist(err) {
			err = nil
		}
		return "", err
	}
	lines := strings.Split(strings.ReplaceAll(strings.ReplaceAll(string(raw), "\r", ""), "\t", "    "), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n"), nil
}

// noticeFile names every part, then gives each licence text once.
func noticeFile(parts []part) string {
	var b strings.Builder
	b.WriteString(head)
	b.WriteString("Licensed under the Apache License, Version 2.0; its text is in the file LICENSE.\n\n")
	b.WriteString(testData + "\nThe program windhover is linked with the following. Each is used unchanged, under\nthe licence named, whose text is in LICENSE (Apache-2.0) or below.\n\n")
	var texts []string
	users := map[string][]string{}
	for _, p := range parts {
		name := strings.TrimSpace(p.name + " " + p.version)
		fmt.Fprintf(&b, "%-13s %s\n", p.licence, name)
		if p.text == "" {
			continue
		}
		if users[p.text] == nil {
			texts = append(texts, p.text)
		}
		users[p.text] = append(users[p.text], p.name)
	}
	for _, p := range parts {
		if p.notice != "" {
			fmt.Fprintf(&b, "\n%s\nNOTICE of %s\n\n%s\n", strings.Repeat("-", 78), p.name, p.notice)
		}
	}
	for _, t := range texts {
		fmt.Fprintf(&b, "\n%s\nLicence of %s\n\n%s\n", strings.Repeat("-", 78), strings.Join(users[t], ",\n           "), t)
	}
	return b.String()
}

// copyrightFile is the same in Debian's machine-readable form (DEP-5).
func copyrightFile(parts []part) string {
	const apache = ` On Debian systems, the full text of the Apache License version 2.0 is in
 /usr/share/common-licenses/Apache-2.0.
`
	var b strings.Builder
	b.WriteString("Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: windhover\n")
	b.WriteString("Comment:\n Written by scripts/notice.go. The binary is linked statically; below the\n first paragraph are the modules in it, by their import paths.\n")
	b.WriteString("\nFiles: *\nCopyright: " + ours + "\nLicense: Apache-2.0\n")
	for _, p := range parts {
		files := p.name + "/*"
		if p.version == "" {
			files = "golang.org/go/*"
		}
		fmt.Fprintf(&b, "\nFiles: %s\nCopyright: %s\nLicense: %s\n", files, strings.Join(p.copyright, "\n "), p.licence)
		if p.text != "" {
			b.WriteString(indent(p.text))
		}
		if p.notice != "" {
			b.WriteString("Comment:\n" + indent(p.notice))
		}
	}
	b.WriteString("\nLicense: Apache-2.0\n" + apache)
	return b.String()
}

// indent makes text the continuation of a field: a space before each line, a
// point for an empty one.
func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text + "\n") {
		if strings.TrimSpace(line) == "" {
			line = ".\n"
		}
		b.WriteString(" " + line)
	}
	return b.String()
}

func output(env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if exit, ok := err.(*exec.ExitError); ok {
		return nil, fmt.Errorf("%s: %v: %s", strings.Join(cmd.Args, " "), err, exit.Stderr)
	}
	return out, err
}
