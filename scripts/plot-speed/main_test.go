// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
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
	if err := plot(out, "", []string{in}); err != nil {
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
	for name, text := range map[string]string{"not JSON": "{", "no list of runs": `[{"model_type": 3}]`, "no rates": "{}"} {
		in := write(t, map[string]string{"a.json": text})
		if err := plot(t.TempDir(), "", []string{in}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
