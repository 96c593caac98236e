// SPDX-License-Identifier: Apache-2.0

// Plot-speed draws what `windhover bench --json` and llama.cpp's `llama-bench -o
// json` measured, as SVG files: for each model tokens a second by context, and by
// length of the prompt, with a panel for each number of threads.
//
//	windhover bench --shape qwen3-0.6b --mode q8 --prompt 512,2048,8192 --context 0,2048,8192 --json >perf/q8.json
//	llama-bench -m 0.6b-q8_0.gguf -p 512,2048,8192 -n 0 -t 1,2 -o json >perf/prompt.json
//	llama-bench -m 0.6b-q8_0.gguf -p 0 -n 32 -d 0,2048,8192 -t 1,2 -o json >perf/context.json
//	go run ./scripts/plot-speed -o docs/perf perf 'ik_llama.cpp=other/*.json'
//
// NAME= before a file, a directory or a pattern names the engine of what
// llama-bench measured there; a file of that whole name goes first. Models go
// together that have the same name (llama-bench's "qwen3 0.6B" is qwen3-0.6b);
// -model FOUND=NAME,… names anew what was found under another one, -model NAME all.
// Of several figures for one point the median is drawn. -skip leaves out lengths of
// the prompt that were measured to warm up. The dotted line is what bench found to
// be the limit: reading the weights at the speed of memory, calculating at the CPU's
// integer peak.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

func main() {
	out := flag.String("o", ".", "directory for the SVG files")
	model := flag.String("model", "", "name of the model of all files, or FOUND=NAME,… for those that were found under another name")
	skip := flag.String("skip", "", "lengths of the prompt to leave out, comma-separated")
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := plot(*out, *model, *skip, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "plot-speed:", err)
		os.Exit(1)
	}
}

func plot(out, model, skip string, args []string) error {
	d, err := newData(model, skip)
	if err != nil {
		return err
	}
	for _, arg := range args {
		engine, files, err := source(arg)
		if err != nil {
			return err
		}
		for _, file := range files {
			before := len(d.points)
			if err := d.read(file, engine); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if len(d.points) == before {
				fmt.Fprintf(os.Stderr, "plot-speed: %s: nothing to draw\n", file)
			}
		}
	}
	if err := d.unused(); err != nil {
		return err
	}
	if len(d.points) == 0 {
		return fmt.Errorf("no token rates in %s", strings.Join(args, " "))
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, name := range unique(d.points, func(p point) string { return p.model }) {
		for _, kind := range []string{decode, prefill} {
			c := chart{kind: kind, model: name}
			for _, p := range d.points {
				if p.model == name && p.kind == kind {
					c.points = append(c.points, p)
				}
			}
			for _, l := range d.limits {
				if l.model == name && l.kind == kind {
					c.limits = append(c.limits, l)
				}
			}
			if len(c.points) == 0 {
				continue
			}
			path := filepath.Join(out, strings.ReplaceAll(name, "/", "-")+"-"+kind+".svg")
			svg := c.draw()
			if err := os.WriteFile(path, []byte(svg), 0o644); err != nil {
				return err
			}
			fmt.Printf("%s: %d points, %d bytes\n", path, len(c.points), len(svg))
		}
	}
	return nil
}

// source takes an argument apart: the name of the engine and the files. A shell
// does not look for the files of a pattern behind NAME=.
func source(arg string) (engine string, files []string, err error) {
	engine = "llama.cpp"
	fi, err := os.Stat(arg)
	if name, rest, ok := strings.Cut(arg, "="); err != nil && ok && name != "" && !strings.Contains(name, "/") {
		engine, arg = name, rest
		fi, err = os.Stat(arg)
	}
	pattern := arg
	switch {
	case err == nil && !fi.IsDir():
		return engine, []string{arg}, nil
	case err == nil:
		pattern = filepath.Join(arg, "*.json")
	case !errors.Is(err, fs.ErrNotExist):
		return "", nil, err
	}
	files, badPattern := filepath.Glob(pattern)
	switch {
	case badPattern != nil:
		return "", nil, fmt.Errorf("%s: %w", pattern, badPattern)
	case len(files) == 0 && err != nil:
		return "", nil, err
	case len(files) == 0:
		return "", nil, fmt.Errorf("%s: no such files", pattern)
	}
	return engine, files, nil
}

// numbers reads "64,128".
func numbers(list string) (out []int, err error) {
	for _, word := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("%q in %q is no whole number", word, list)
		}
		out = append(out, n)
	}
	return out, nil
}
