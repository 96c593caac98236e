// SPDX-License-Identifier: Apache-2.0

// Plot-speed draws what `windhover bench --json` and llama.cpp's `llama-bench -o
// json` measured, as SVG files: for each model tokens a second by context, and by
// length of the prompt, with a panel for each number of threads.
//
//	windhover bench --shape qwen3-0.6b --mode q8 --prompt 512,2048,8192 --context 0,2048,8192 --json >perf/q8.json
//	llama-bench -m 0.6b-q8_0.gguf -p 512,2048,8192 -n 0 -t 1,2 -o json >perf/prompt.json
//	llama-bench -m 0.6b-q8_0.gguf -p 0 -n 32 -d 0,2048,8192 -t 1,2 -o json >perf/context.json
//	go run ./scripts/plot-speed -o docs/perf perf ik_llama.cpp=other/*.json
//
// NAME= before a file or a directory names the engine of what llama-bench measured
// there. Models go together that have the same name (llama-bench's "qwen3 0.6B" is
// qwen3-0.6b); -model gives all the same. Of several figures for one point the
// median is drawn. The dotted line is what bench found to be the limit: reading the
// weights at the speed of memory, calculating at the CPU's integer peak.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	out := flag.String("o", ".", "directory for the SVG files")
	model := flag.String("model", "", "name of the model of all files")
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := plot(*out, *model, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "plot-speed:", err)
		os.Exit(1)
	}
}

func plot(out, model string, args []string) error {
	var d data
	for _, arg := range args {
		engine := "llama.cpp"
		if name, rest, ok := strings.Cut(arg, "="); ok {
			engine, arg = name, rest
		}
		files := []string{arg}
		if fi, err := os.Stat(arg); err != nil {
			return err
		} else if fi.IsDir() {
			files, _ = filepath.Glob(filepath.Join(arg, "*.json")) // the pattern is good
		}
		for _, file := range files {
			if err := d.read(file, engine, model); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
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
