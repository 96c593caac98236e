// SPDX-License-Identifier: Apache-2.0

//go:build ignore

// Plot-speed draws what `windhover bench --json` and llama.cpp's `llama-bench -o
// json` measured, as SVG files: for each model tokens a second by context, and by
// length of the prompt, with a panel for each number of threads.
//
//	windhover bench --shape qwen3-0.6b --mode q8 --prompt 512,2048,8192 --context 0,2048,8192 --json >perf/q8.json
//	llama-bench -m 0.6b-q8_0.gguf -p 512,2048,8192 -n 0 -t 1,2 -o json >perf/prompt.json
//	llama-bench -m 0.6b-q8_0.gguf -p 0 -n 32 -d 0,2048,8192 -t 1,2 -o json >perf/context.json
//	go run scripts/plot-speed.go -o docs/perf perf ik_llama.cpp=other/*.json
//
// NAME= before a file or a directory names the engine of what llama-bench measured
// there. Models go together that have the same name (llama-bench's "qwen3 0.6B" is
// qwen3-0.6b); -model gives all the same. Of several figures for one point the
// median is drawn. The dotted line is what bench found to be the limit: reading the
// weights at the speed of memory, calculating at the CPU's integer peak.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
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

// unique are the values of key, in order of appearance.
func unique[T any, K comparable](list []T, key func(T) K) []K {
	var out []K
	for _, v := range list {
		if k := key(v); !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// A chart is one file.
type chart struct {
	model, kind string
	points      []point
	limits      []limit
	b           strings.Builder
}

// Sizes in pixels.
const (
	width, height = 860, 400
	left, right   = 58, 16
	top, bottom   = 92, 52
	gap           = 44 // between panels
)

// The colours of engines, and of text and lines, on light and on dark.
const style = `<style>
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;font-size:12px;fill:#57606a}
.h{font-size:16px;font-weight:600;fill:#1f2328}.p{font-size:13px;font-weight:600;fill:#1f2328}.k{fill:#1f2328}
.g{stroke:#d0d7de;stroke-width:1}.a{stroke:#8c959f;stroke-width:1}.l{stroke:#8c959f;stroke-width:1.5;stroke-dasharray:1.5 3.5;stroke-linecap:round}
.s{fill:none;stroke-width:2.25;stroke-linejoin:round}.d{stroke-dasharray:7 4}.m{stroke-width:2}
.e0{stroke:#0969da}.e1{stroke:#bc4c00}.e2{stroke:#1a7f37}.e3{stroke:#8250df}
.f0{fill:#0969da}.f1{fill:#bc4c00}.f2{fill:#1a7f37}.f3{fill:#8250df}.o{fill:#fff}
@media(prefers-color-scheme:dark){text{fill:#9198a1}.h,.p,.k{fill:#f0f6fc}.g{stroke:#30363d}.a,.l{stroke:#6e7681}
.e0{stroke:#58a6ff}.e1{stroke:#ffa657}.e2{stroke:#3fb950}.e3{stroke:#bc8cff}
.f0{fill:#58a6ff}.f1{fill:#ffa657}.f2{fill:#3fb950}.f3{fill:#bc8cff}.o{fill:#0d1117}}
</style>
`

func (c *chart) put(format string, a ...any) { fmt.Fprintf(&c.b, format, a...) }

// series is one line of a panel.
type series struct {
	engine, format string
	class          int  // of the colour
	dashed         bool // the second format and later ones
}

func (c *chart) series() []series {
	engines := unique(c.points, func(p point) string { return p.engine })
	slices.SortStableFunc(engines, func(a, b string) int { return strings.Compare(b, a) }) // windhover first
	formats := unique(c.points, func(p point) string { return p.format })
	slices.SortFunc(formats, func(a, b string) int { return strings.Compare(b, a) }) // q8 before q4
	var list []series
	for i, e := range engines {
		for j, f := range formats {
			if slices.ContainsFunc(c.points, func(p point) bool { return p.engine == e && p.format == f }) {
				list = append(list, series{e, f, i % 4, j > 0})
			}
		}
	}
	return list
}

func (c *chart) draw() string {
	panels := unique(c.points, func(p point) int { return p.threads })
	slices.Sort(panels)
	xs := unique(c.points, func(p point) int { return p.x })
	slices.Sort(xs)
	most := 0.0
	for _, p := range c.points {
		most = max(most, p.tokS)
	}
	// Limits farther off would flatten what was measured.
	c.limits = slices.DeleteFunc(c.limits, func(l limit) bool { return l.tokS > 1.5*most })
	for _, l := range c.limits {
		most = max(most, l.tokS)
	}
	step := niceStep(most * 1.04 / 5)
	yTop := math.Ceil(most*1.04/step) * step

	what, axis := "generating", "tokens of context before"
	if c.kind == prefill {
		what, axis = "reading a prompt", "tokens of prompt"
	}
	c.put(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n", width, height, width, height,
		escape(c.model+", "+what+": tokens a second by "+axis))
	c.put("%s", style)
	c.put(`<text class="h" x="%d" y="24">%s, %s: tokens a second</text>`+"\n", left-42, escape(c.model), what)
	c.legend()
	w := (width - left - right - gap*(len(panels)-1)) / len(panels)
	for i, threads := range panels {
		x0 := left + i*(w+gap)
		c.panel(x0, w, threads, xs, yTop, step)
		c.put(`<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", x0+w/2, height-10, axis)
	}
	c.put("</svg>\n")
	return c.b.String()
}

func (c *chart) legend() {
	x := left - 42
	for _, s := range c.series() {
		name := s.engine
		if s.format != "" {
			name += " " + s.format
		}
		c.line(s, fmt.Sprintf("M%d 46H%d", x, x+30))
		c.mark(s, float64(x+15), 46, "")
		c.put(`<text class="k" x="%d" y="50">%s</text>`+"\n", x+37, escape(name))
		x += 52 + 7*len(name)
	}
	if len(c.limits) > 0 {
		text := "memory's speed, over the weights"
		if c.kind == prefill {
			text = "the CPU's integer peak"
		}
		c.put(`<path class="l" d="M%d 46H%d"/><text x="%d" y="50">%s</text>`+"\n", x, x+26, x+33, text)
	}
}

// panel draws what was measured with a number of threads.
func (c *chart) panel(x0, w, threads int, xs []int, yTop, step float64) {
	bottomY := float64(height - bottom)
	y := func(v float64) float64 { return bottomY - v/yTop*(bottomY-top) }
	// log2, with 0 a doubling before the least.
	place := func(v int) float64 {
		least := xs[0]
		if least == 0 && len(xs) > 1 {
			least = xs[1]
		}
		if v == 0 {
			return 0
		}
		at := math.Log2(float64(v) / float64(least))
		if xs[0] == 0 {
			at++
		}
		return at
	}
	const inset = 14.0
	span := max(place(xs[len(xs)-1]), 1)
	x := func(v int) float64 { return float64(x0) + inset + place(v)/span*(float64(w)-2*inset) }

	name := fmt.Sprintf("%d threads", threads)
	if threads == 1 {
		name = "1 thread"
	}
	c.put(`<text class="p" x="%d" y="%d">%s</text>`+"\n", x0, top-12, name)
	for v := 0.0; v <= yTop+step/2; v += step {
		class := "g"
		if v == 0 {
			class = "a"
		}
		c.put(`<path class="%s" d="M%d %.1fH%d"/><text x="%d" y="%.1f" text-anchor="end">%g</text>`+"\n", class, x0, y(v), x0+w, x0-7, y(v)+4, v)
	}
	for _, v := range xs {
		c.put(`<path class="a" d="M%.1f %.1fv5"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", x(v), bottomY, x(v), bottomY+19, short(v))
	}
	for _, format := range unique(c.limits, func(l limit) string { return l.format }) {
		var list []float64
		for _, l := range c.limits {
			if l.threads == threads && l.format == format {
				list = append(list, l.tokS)
			}
		}
		if len(list) > 0 && median(list) <= yTop {
			v := median(list)
			c.put(`<path class="l" d="M%d %.1fH%d"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", x0, y(v), x0+w, x0+w-2, y(v)-5, format)
		}
	}
	for _, s := range c.series() {
		path, marks := "", [][2]float64{}
		var titles []string
		for _, v := range xs {
			var list []float64
			for _, p := range c.points {
				if p.engine == s.engine && p.format == s.format && p.threads == threads && p.x == v {
					list = append(list, p.tokS)
				}
			}
			if len(list) == 0 {
				continue
			}
			m := median(list)
			path += fmt.Sprintf("%c%.1f %.1f", "ML"[min(len(marks), 1)], x(v), y(m))
			marks = append(marks, [2]float64{x(v), y(m)})
			titles = append(titles, fmt.Sprintf("%s %s, %s, %d: %.1f tok/s", s.engine, s.format, name, v, m))
		}
		if len(marks) == 0 {
			continue
		}
		c.line(s, path)
		for i, m := range marks {
			c.mark(s, m[0], m[1], titles[i])
		}
	}
}

func (c *chart) line(s series, path string) {
	dash := ""
	if s.dashed {
		dash = " d"
	}
	c.put(`<path class="s e%d%s" d="%s"/>`+"\n", s.class, dash, path)
}

// mark is full for the first format, hollow for others.
func (c *chart) mark(s series, x, y float64, title string) {
	fill := fmt.Sprintf("f%d", s.class)
	if s.dashed {
		fill = "o"
	}
	c.put(`<circle class="m e%d %s" cx="%.1f" cy="%.1f" r="3.5">`, s.class, fill, x, y)
	if title != "" {
		c.put(`<title>%s</title>`, escape(title))
	}
	c.put("</circle>\n")
}

// niceStep is the 1, 2, 2.5 or 5 times a power of ten that is no less than v.
func niceStep(v float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if m*p >= v {
			return m * p
		}
	}
	return 10 * p
}

func short(n int) string {
	if n >= 1024 && n%1024 == 0 {
		return fmt.Sprintf("%dK", n/1024)
	}
	return fmt.Sprint(n)
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}
