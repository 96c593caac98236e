// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const ours = `{"read_gb_s": [{"threads": 1, "gb_s": 30}], "peak": [{"threads": 1, "int8_gops": 400}],
	"model": {"path": "/models/qwen3-0.6b.vqf", "kv": "f16", "families": [{"family": "q8", "weight_bytes": 600000000}]},
	"decode": [{"mode": "q8", "threads": 1, "context": 0, "tok_s": 45}, {"mode": "q8", "threads": 1, "context": 2048, "tok_s": 34}],
	"prefill": [{"mode": "q8", "threads": 1, "tokens": 512, "tok_s": 250, "gops": 200}]}`

const theirs = `[{"model_type": "qwen3 0.6B Q8_0", "n_threads": 1, "n_prompt": 0, "n_gen": 32, "n_depth": 2048, "type_k": "f16", "avg_ts": 20},
	{"model_type": "qwen3 0.6B Q8_0", "n_threads": 1, "n_prompt": 512, "n_gen": 0, "n_depth": 0, "type_k": "f16", "avg_ts": 90},
	{"model_type": "qwen3 0.6B Q8_0", "n_threads": 1, "n_prompt": 512, "n_gen": 32, "n_depth": 0, "type_k": "f16", "avg_ts": 1}]`

// write makes the files of a directory.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// texts are the words of an SVG file, which has to be XML.
func texts(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var words []string
	for d := xml.NewDecoder(f); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return strings.Join(words, "\n")
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if text, ok := token.(xml.CharData); ok {
			words = append(words, string(text))
		}
	}
}

// TestPlot: the models of both programs are one, each point is where its kind
// belongs, and what is no point of these plots is left out.
func TestPlot(t *testing.T) {
	in := write(t, map[string]string{"ours.json": ours, "theirs.json": theirs, "notes.txt": "no measurement"})
	out := filepath.Join(t.TempDir(), "plots")
	if err := plot(out, "", "", []string{in}); err != nil {
		t.Fatal(err)
	}
	decoded := texts(t, filepath.Join(out, "qwen3-0.6b-decode.svg"))
	for _, want := range []string{"windhover q8, 1 thread, 0: 45.0 tok/s", "windhover q8, 1 thread, 2048: 34.0 tok/s", "llama.cpp q8, 1 thread, 2048: 20.0 tok/s", "memory's speed, over the weights"} {
		if !strings.Contains(decoded, want) {
			t.Errorf("no %q in the plot of decoding", want)
		}
	}
	prompts := texts(t, filepath.Join(out, "qwen3-0.6b-prefill.svg"))
	for _, want := range []string{"windhover q8, 1 thread, 512: 250.0 tok/s", "llama.cpp q8, 1 thread, 512: 90.0 tok/s"} {
		if !strings.Contains(prompts, want) {
			t.Errorf("no %q in the plot of prompts", want)
		}
	}
	if strings.Contains(decoded+prompts, ": 1.0 tok/s") {
		t.Error("a run of prompt and answer together was drawn")
	}
}

func TestPlotRefuses(t *testing.T) {
	for name, text := range map[string]string{"not JSON": "{", "no list of runs": `[{"model_type": 3}]`, "no rates": "{}",
		"a rate below 0": strings.Replace(theirs, `"avg_ts": 20`, `"avg_ts": -1`, 1), "a depth below 0": strings.Replace(theirs, `"n_depth": 2048`, `"n_depth": -1`, 1)} {
		in := write(t, map[string]string{"a.json": text})
		if err := plot(t.TempDir(), "", "", []string{in}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// theirs2 is what ik_llama.cpp writes: no depths, and a run that generates behind a
// prompt is told from one that times both by its name.
const theirs2 = `[{"model_type": "qwen3 0.6B Q8_0", "n_threads": 1, "n_prompt": 0, "n_gen": 32, "type_k": "f16", "avg_ts": 47, "test": "tg32"},
	{"model_type": "qwen3 0.6B Q8_0", "n_threads": 1, "n_prompt": 2048, "n_gen": 32, "type_k": "f16", "avg_ts": 27, "test": "tg32@pp2048"},
	{"model_type": "qwen3 0.6B Q8_0", "n_threads": 1, "n_prompt": 2048, "n_gen": 32, "type_k": "f16", "avg_ts": 99, "test": "pp2048+tg32"},
	{"model_type": "qwen3 0.6B Q8_0", "n_threads": 1, "n_prompt": 64, "n_gen": 0, "type_k": "f16", "avg_ts": 254, "test": "pp64"},
	{"model_type": "qwen3 0.6B Q8_0", "n_threads": 1, "n_prompt": 512, "n_gen": 0, "type_k": "f16", "avg_ts": 280, "test": "pp512"}]`

// TestPlotOtherEngine: a pattern behind NAME=, the way ik_llama.cpp says what it
// measured, lengths to leave out and models under another name.
func TestPlotOtherEngine(t *testing.T) {
	in := write(t, map[string]string{"ours.json": strings.ReplaceAll(ours, "qwen3-0.6b", "0.6b-q8"), "their-d.json": theirs2})
	out := t.TempDir()
	if err := plot(out, "0.6b-q8=qwen3-0.6b", "64", []string{filepath.Join(in, "ours.json"), "ik_llama.cpp=" + in + "/their-*.json"}); err != nil {
		t.Fatal(err)
	}
	decoded := texts(t, filepath.Join(out, "qwen3-0.6b-decode.svg"))
	for _, want := range []string{"windhover q8, 1 thread, 2048: 34.0 tok/s", "ik_llama.cpp q8, 1 thread, 0: 47.0 tok/s", "ik_llama.cpp q8, 1 thread, 2048: 27.0 tok/s"} {
		if !strings.Contains(decoded, want) {
			t.Errorf("no %q in the plot of decoding", want)
		}
	}
	prompts := texts(t, filepath.Join(out, "qwen3-0.6b-prefill.svg"))
	if !strings.Contains(prompts, "ik_llama.cpp q8, 1 thread, 512: 280.0 tok/s") || strings.Contains(prompts, "254.0") || strings.Contains(prompts, "\n64\n") {
		t.Errorf("the plot of prompts has not just what -skip leaves: %s", prompts)
	}
	if strings.Contains(decoded+prompts, "99.0") {
		t.Error("a run of prompt and answer together was drawn")
	}
	for _, c := range []struct{ model, skip, arg, want string }{
		{"1.7b=qwen3-1.7b", "", in, `no model was found under the name "1.7b"`},
		{"a,b", "", in, "give one name"},
		{"a=", "", in, "give one name"},
		{"", "128", in, "no prompt of 128 tokens"},
		{"", "x", in, `"x" in "x" is no whole number`},
		{"", "", filepath.Join(in, "none-*.json"), "no such file"},
		{"", "", t.TempDir(), "no such files"},
	} {
		if err := plot(t.TempDir(), c.model, c.skip, []string{c.arg}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("-model %q -skip %q %s: error %v, want %q", c.model, c.skip, c.arg, err, c.want)
		}
	}
}

// TestSource: what is before = names an engine only where no file has the whole
// name, and no directory is part of it.
func TestSource(t *testing.T) {
	in := write(t, map[string]string{"t=2.json": theirs, "plain.json": theirs})
	t.Chdir(in)
	for _, c := range []struct{ arg, engine, file string }{
		{"plain.json", "llama.cpp", "plain.json"},
		{"t=2.json", "llama.cpp", "t=2.json"},
		{in + "/t=2.json", "llama.cpp", in + "/t=2.json"},
		{"ik_llama.cpp=plain.json", "ik_llama.cpp", "plain.json"},
		{"ik_llama.cpp=t=2.json", "ik_llama.cpp", "t=2.json"},
		{"x=t=*.json", "x", "t=2.json"},
		{in + "/t=*.json", "llama.cpp", in + "/t=2.json"},
	} {
		engine, files, err := source(c.arg)
		if err != nil || engine != c.engine || len(files) != 1 || files[0] != c.file {
			t.Errorf("%s: %q, %v, %v; want %q of %q", c.arg, engine, files, err, c.engine, c.file)
		}
	}
	if _, _, err := source(in + "/x=plain.json"); err == nil || !strings.Contains(err.Error(), "x=plain.json") {
		t.Errorf("a directory was taken for an engine: %v", err)
	}
}

// TestPlotNumbers: whatever the rates are, zero too, and however many lines the
// legend takes, every place in the picture is a number inside it.
func TestPlotNumbers(t *testing.T) {
	zero := `{"model": {"path": "slow.vqf", "families": [{"family": "q8", "weight_bytes": 1}]}, "read_gb_s": [{"threads": 1, "gb_s": 0}],
		"decode": [{"mode": "q8", "threads": 1, "context": 0, "tok_s": 0}], "prefill": [{"mode": "q8", "threads": 1, "tokens": 512, "tok_s": 0, "gops": 0}]}`
	many := map[string]string{}
	for i, format := range []string{"Q8_0", "Q4_0", "Q5_0", "Q6_K", "IQ4_XS", "BF16", "F16", "Q3_K", "Q2_K"} {
		many[string(rune('a'+i))+".json"] = strings.ReplaceAll(theirs, "Q8_0", format)
	}
	for name, in := range map[string]string{"zero": write(t, map[string]string{"a.json": zero}), "many": write(t, many)} {
		out := t.TempDir()
		if err := plot(out, "m", "", []string{in}); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{decode, prefill} {
			svg, err := os.ReadFile(filepath.Join(out, "m-"+kind+".svg"))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(svg), "NaN") || strings.Contains(string(svg), "Inf") {
				t.Errorf("%s, %s: places that are no numbers", name, kind)
			}
			for _, m := range regexp.MustCompile(` (?:x|cx)="([^"]*)"`).FindAllStringSubmatch(string(svg), -1) {
				if x, err := strconv.ParseFloat(m[1], 64); err != nil || x < 0 || x > width {
					t.Errorf("%s, %s: something is at x = %s", name, kind, m[1])
				}
			}
		}
	}
}

// TestMedian: of two runs neither is taken for both.
func TestMedian(t *testing.T) {
	for _, c := range []struct {
		list []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{44, 37}, 40.5}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := median(c.list); got != c.want {
			t.Errorf("median of %v: %v, want %v", c.list, got, c.want)
		}
	}
}

// TestLimits: where a limit of one panel is too far off to be drawn, those of the
// others are not drawn either.
func TestLimits(t *testing.T) {
	points := []point{{"m", prefill, "windhover", "q8", 1, 512, 100}, {"m", prefill, "windhover", "q8", 2, 512, 190}}
	for _, c := range []struct {
		two   float64 // limit of two threads
		drawn int
	}{{280, 2}, {400, 0}} {
		chart := chart{kind: prefill, model: "m", points: points, limits: []limit{{"m", prefill, "", 1, 130}, {"m", prefill, "", 1, 150}, {"m", prefill, "", 2, c.two}}}
		svg := chart.draw()
		if got := strings.Count(svg, `class="l" d=`); got != c.drawn+min(c.drawn, 1) { // one is in the legend
			t.Errorf("limit %v: %d lines, want %d in panels", c.two, got, c.drawn)
		}
	}
}
