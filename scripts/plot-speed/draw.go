// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A chart is one file.
type chart struct {
	model, kind string
	points      []point
	limits      []limit
	b           strings.Builder
	down        int // by which a legend of several lines moves what is below it
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
	c.limits = medians(c.limits)
	// Limits farther off would flatten what was measured. Of a format none is drawn
	// then: a panel without would seem to have no limit.
	var far []string
	for _, l := range c.limits {
		if l.tokS > 1.5*most {
			far = append(far, l.format)
		}
	}
	c.limits = slices.DeleteFunc(c.limits, func(l limit) bool { return slices.Contains(far, l.format) })
	for _, l := range c.limits {
		most = max(most, l.tokS)
	}
	if most == 0 {
		most = 1 // so that there is an axis
	}
	step := niceStep(most * 1.04 / 5)
	yTop := math.Ceil(most*1.04/step) * step

	what, axis := "generating", "tokens of context before"
	if c.kind == prefill {
		what, axis = "reading a prompt", "tokens of prompt"
	}
	names, letters := c.names()
	at := c.place(letters)
	high := height + c.down
	c.put(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n", width, high, width, high,
		escape(c.model+", "+what+": tokens a second by "+axis))
	c.put("%s", style)
	c.put(`<text class="h" x="%d" y="24">%s, %s: tokens a second</text>`+"\n", left-42, escape(c.model), what)
	c.legend(names, at)
	w := (width - left - right - gap*(len(panels)-1)) / len(panels)
	for i, threads := range panels {
		x0 := left + i*(w+gap)
		c.panel(x0, w, threads, xs, yTop, step)
		c.put(`<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", x0+w/2, high-10, axis)
	}
	c.put("</svg>\n")
	return c.b.String()
}

// place gives each entry of the legend, of so many letters, its place: in as many
// lines as it takes, which move all below them down.
func (c *chart) place(letters []int) (at [][2]int) {
	x, y := left-42, 46
	for _, n := range letters {
		w := 52 + 7*n
		if x > left-42 && x+w > width {
			x, y = left-42, y+18
		}
		at = append(at, [2]int{x, y})
		x += w
	}
	c.down = y - 46
	return at
}

// legend draws the names of the series, and of the limits.
func (c *chart) legend(names []string, at [][2]int) {
	for i, s := range c.series() {
		x, y := at[i][0], at[i][1]
		c.line(s, fmt.Sprintf("M%d %dH%d", x, y, x+30))
		c.mark(s, float64(x+15), float64(y), "")
		c.put(`<text class="k" x="%d" y="%d">%s</text>`+"\n", x+37, y+4, escape(names[i]))
	}
	if len(c.limits) > 0 {
		i := len(names) - 1
		x, y := at[i][0], at[i][1]
		c.put(`<path class="l" d="M%d %dH%d"/><text x="%d" y="%d">%s</text>`+"\n", x, y, x+30, x+37, y+4, names[i])
	}
}

// names are the entries of the legend.
func (c *chart) names() (names []string, letters []int) {
	for _, s := range c.series() {
		names = append(names, strings.TrimSpace(s.engine+" "+s.format))
	}
	if len(c.limits) > 0 {
		limit := "memory's speed, over the weights"
		if c.kind == prefill {
			limit = "the CPU's integer peak"
		}
		names = append(names, limit)
	}
	for _, n := range names {
		letters = append(letters, len(n))
	}
	return names, letters
}

// panel draws what was measured with a number of threads.
func (c *chart) panel(x0, w, threads int, xs []int, yTop, step float64) {
	topY, bottomY := float64(top+c.down), float64(height+c.down-bottom)
	y := func(v float64) float64 { return bottomY - v/yTop*(bottomY-topY) }
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
	c.put(`<text class="p" x="%d" y="%d">%s</text>`+"\n", x0, top+c.down-12, name)
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
	several := len(unique(c.limits, func(l limit) string { return l.format })) > 1
	for _, l := range c.limits {
		if l.threads != threads {
			continue
		}
		c.put(`<path class="l" d="M%d %.1fH%d"/>`+"\n", x0, y(l.tokS), x0+w)
		if several { // else the legend says all
			c.put(`<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", x0+w-2, y(l.tokS)-5, l.format)
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

// medians has one limit for each number of threads and format.
func medians(limits []limit) (out []limit) {
	for _, key := range unique(limits, func(l limit) limit { l.tokS = 0; return l }) {
		var list []float64
		for _, l := range limits {
			if l.threads == key.threads && l.format == key.format {
				list = append(list, l.tokS)
			}
		}
		key.tokS = median(list)
		out = append(out, key)
	}
	return out
}

// median is the middle one, or between the two in the middle.
func median(list []float64) float64 {
	slices.Sort(list)
	n := len(list)
	return (list[(n-1)/2] + list[n/2]) / 2
}
