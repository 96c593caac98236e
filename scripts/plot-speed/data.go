// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	decode  = "decode"
	prefill = "prefill"
)

// A point is one measurement.
type point struct {
	model, kind    string
	engine, format string
	threads, x     int
	tokS           float64
}

// A limit is what tok/s cannot exceed.
type limit struct {
	model, kind, format string
	threads             int
	tokS                float64
}

type data struct {
	points []point
	limits []limit

	names map[string]string // of models, by the name they were found under; "" is any
	skip  []int             // lengths of prompts
	used  map[any]bool      // names and lengths that something was found for
}

func newData(model, skip string) (*data, error) {
	d := &data{names: map[string]string{}, used: map[any]bool{}}
	for _, word := range strings.FieldsFunc(model, func(r rune) bool { return r == ',' }) {
		found, name, ok := strings.Cut(word, "=")
		if !ok {
			found, name = "", word
		}
		if name == "" || d.names[found] != "" {
			return nil, fmt.Errorf("-model %s: give one name, or FOUND=NAME for each model", model)
		}
		d.names[found] = name
	}
	var err error
	if d.skip, err = numbers(skip); err != nil {
		return nil, fmt.Errorf("-skip: %w", err)
	}
	return d, nil
}

// unused finds what was asked for in vain, for a slip of the pen, most likely.
func (d *data) unused() error {
	for found := range d.names {
		if !d.used[found] {
			return fmt.Errorf("-model: no model was found under the name %q", found)
		}
	}
	for _, n := range d.skip {
		if !d.used[n] {
			return fmt.Errorf("-skip: there is no prompt of %d tokens", n)
		}
	}
	return nil
}

// named is the name of a model.
func (d *data) named(found string) string {
	for _, key := range []string{found, ""} {
		if name, ok := d.names[key]; ok {
			d.used[key] = true
			return name
		}
	}
	return found
}

// add takes a measurement, unless it is to be left out.
func (d *data) add(p point) error {
	switch {
	case p.x < 0 || p.tokS < 0:
		return fmt.Errorf("%g tokens a second at %d tokens: this is no measurement", p.tokS, p.x)
	case p.kind == prefill && slices.Contains(d.skip, p.x):
		d.used[p.x] = true
		return nil
	}
	d.points = append(d.points, p)
	return nil
}

// report is what is used of `windhover bench --json`.
type report struct {
	Read []struct {
		Threads int     `json:"threads"`
		GBs     float64 `json:"gb_s"`
	} `json:"read_gb_s"`
	Model *struct {
		Path     string `json:"path"`
		KV       string `json:"kv"`
		Families []struct {
			Family  string `json:"family"`
			Weights int64  `json:"weight_bytes"`
		} `json:"families"`
	} `json:"model"`
	Decode []struct {
		Mode    string  `json:"mode"`
		Threads int     `json:"threads"`
		Context int     `json:"context"`
		TokS    float64 `json:"tok_s"`
	} `json:"decode"`
	Prefill []struct {
		Mode    string  `json:"mode"`
		Threads int     `json:"threads"`
		Tokens  int     `json:"tokens"`
		TokS    float64 `json:"tok_s"`
		GOPS    float64 `json:"gops"`
	} `json:"prefill"`
	Peak []struct {
		Threads int     `json:"threads"`
		Int8    float64 `json:"int8_gops"`
	} `json:"peak"`
}

// run is one entry of `llama-bench -o json`. ik_llama.cpp's has no depth: with -gp
// it computes a prompt and times what is generated behind it, and Test says so.
type run struct {
	Type    string  `json:"model_type"`
	Threads int     `json:"n_threads"`
	Prompt  int     `json:"n_prompt"`
	Gen     int     `json:"n_gen"`
	Depth   int     `json:"n_depth"`
	Test    string  `json:"test"` // of ik_llama.cpp, such as "tg32@pp2048"
	TypeK   string  `json:"type_k"`
	TokS    float64 `json:"avg_ts"`
}

// read takes a file of either kind.
func (d *data) read(path, engine string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if strings.HasPrefix(strings.TrimSpace(string(b)), "[") {
		var runs []run
		if err := json.Unmarshal(b, &runs); err != nil {
			return fmt.Errorf("not of llama-bench -o json: %w", err)
		}
		return d.llama(runs, engine)
	}
	var r report
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("not of windhover bench --json: %w", err)
	}
	return d.windhover(&r)
}

func (d *data) llama(runs []run, engine string) error {
	for _, r := range runs {
		name, format := r.Type, ""
		if i := strings.LastIndexByte(r.Type, ' '); i >= 0 {
			name, format = r.Type[:i], strings.TrimSuffix(strings.ToLower(r.Type[i+1:]), "_0")
		}
		if r.TypeK != "" && r.TypeK != "f16" {
			format += ", kv " + r.TypeK
		}
		p := point{model: d.named(strings.ReplaceAll(strings.ToLower(name), " ", "-")), engine: engine, format: format, threads: r.Threads, tokS: r.TokS}
		switch {
		case r.Gen > 0 && r.Prompt == 0:
			p.kind, p.x = decode, r.Depth
		case r.Gen > 0 && r.Test == fmt.Sprintf("tg%d@pp%d", r.Gen, r.Prompt):
			p.kind, p.x = decode, r.Prompt
		case r.Gen == 0 && r.Prompt > 0 && r.Depth == 0:
			p.kind, p.x = prefill, r.Prompt
		default:
			continue // both at once, or a prompt behind another: no point of these plots
		}
		if err := d.add(p); err != nil {
			return err
		}
	}
	return nil
}

func (d *data) windhover(r *report) error {
	if r.Model == nil {
		return nil
	}
	name := d.named(strings.TrimSuffix(filepath.Base(r.Model.Path), ".vqf"))
	kv := ""
	if r.Model.KV != "" && r.Model.KV != "f16" {
		kv = ", kv " + r.Model.KV
	}
	for _, s := range r.Decode {
		if err := d.add(point{name, decode, "windhover", s.Mode + kv, s.Threads, s.Context, s.TokS}); err != nil {
			return err
		}
	}
	for _, s := range r.Prefill {
		if err := d.add(point{name, prefill, "windhover", s.Mode + kv, s.Threads, s.Tokens, s.TokS}); err != nil {
			return err
		}
		for _, peak := range r.Peak {
			if peak.Threads == s.Threads && s.GOPS > 0 { // the same for every length but for rounding
				d.limits = append(d.limits, limit{name, prefill, "", s.Threads, peak.Int8 / s.GOPS * s.TokS})
			}
		}
	}
	for _, f := range r.Model.Families {
		for _, read := range r.Read {
			if f.Weights > 0 {
				d.limits = append(d.limits, limit{name, decode, f.Family, read.Threads, read.GBs * 1e9 / float64(f.Weights)})
			}
		}
	}
	return nil
}
