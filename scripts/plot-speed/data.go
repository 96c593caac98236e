// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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

// run is one entry of `llama-bench -o json`.
type run struct {
	Type    string  `json:"model_type"`
	Threads int     `json:"n_threads"`
	Prompt  int     `json:"n_prompt"`
	Gen     int     `json:"n_gen"`
	Depth   int     `json:"n_depth"`
	TypeK   string  `json:"type_k"`
	TokS    float64 `json:"avg_ts"`
}

// read takes a file of either kind.
func (d *data) read(path, engine, model string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if strings.HasPrefix(strings.TrimSpace(string(b)), "[") {
		var runs []run
		if err := json.Unmarshal(b, &runs); err != nil {
			return fmt.Errorf("not of llama-bench -o json: %w", err)
		}
		d.llama(runs, engine, model)
		return nil
	}
	var r report
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("not of windhover bench --json: %w", err)
	}
	d.windhover(&r, model)
	return nil
}

func (d *data) llama(runs []run, engine, model string) {
	for _, r := range runs {
		name, format := r.Type, ""
		if i := strings.LastIndexByte(r.Type, ' '); i >= 0 {
			name, format = r.Type[:i], strings.TrimSuffix(strings.ToLower(r.Type[i+1:]), "_0")
		}
		if r.TypeK != "" && r.TypeK != "f16" {
			format += ", kv " + r.TypeK
		}
		p := point{model: named(strings.ReplaceAll(strings.ToLower(name), " ", "-"), model), engine: engine, format: format, threads: r.Threads, tokS: r.TokS}
		switch {
		case r.Gen > 0 && r.Prompt == 0:
			p.kind, p.x = decode, r.Depth
		case r.Gen == 0 && r.Prompt > 0 && r.Depth == 0:
			p.kind, p.x = prefill, r.Prompt
		default:
			continue // both at once, or a prompt behind another: no point of these plots
		}
		d.points = append(d.points, p)
	}
}

func (d *data) windhover(r *report, model string) {
	if r.Model == nil {
		return
	}
	name := named(strings.TrimSuffix(filepath.Base(r.Model.Path), ".vqf"), model)
	kv := ""
	if r.Model.KV != "" && r.Model.KV != "f16" {
		kv = ", kv " + r.Model.KV
	}
	for _, s := range r.Decode {
		d.points = append(d.points, point{name, decode, "windhover", s.Mode + kv, s.Threads, s.Context, s.TokS})
	}
	for _, s := range r.Prefill {
		d.points = append(d.points, point{name, prefill, "windhover", s.Mode + kv, s.Threads, s.Tokens, s.TokS})
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
}

func named(found, given string) string {
	if given != "" {
		return given
	}
	return found
}
