// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Sizes in pixels: two columns of panels.
const (
	wide, high  = 860, 150 // the drawing, and a panel with its title
	column      = 420
	left, right = 62, 12
	top, bottom = 26, 24
)

// The colours, on light and on dark.
const style = `<style>
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;font-size:12px;fill:#57606a}
.h{font-size:16px;font-weight:600;fill:#1f2328}.p{font-size:13px;font-weight:600;fill:#1f2328}
.g{stroke:#d0d7de;stroke-width:1}.w{fill:#8c959f;fill-opacity:.14}.s{fill:none;stroke:#0969da;stroke-width:1.75;stroke-linejoin:round}
@media(prefers-color-scheme:dark){text{fill:#9198a1}.h,.p{fill:#f0f6fc}.g{stroke:#30363d}.s{stroke:#58a6ff}}
</style>
`

// panels are the measures that are judged, and what was written.
func panels() []measure {
	return append(measures[:len(measures):len(measures)], measure{name: "written to storage since the beginning", unit: "KiB", of: func(r row) int64 { return r.written }})
}

// draw is an SVG file with a panel for each measure, from 0 up: what grows shows.
func draw(rows []row) string {
	var b strings.Builder
	list := panels()
	tall := 40 + (len(list)+1)/2*high
	title := fmt.Sprintf("The daemon through %d hours", rows[len(rows)-1].hour)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n%s", wide, tall, wide, tall, title, style)
	fmt.Fprintf(&b, `<text class="h" x="12" y="24">%s: least of the looks in each hour</text>`+"\n", title)
	for i, m := range list {
		panel(&b, rows, m, i%2*(column+8), 40+i/2*high)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func panel(b *strings.Builder, rows []row, m measure, x, y int) {
	most := int64(1)
	for _, r := range rows {
		most = max(most, m.of(r))
	}
	scale, unit := 1.0, m.unit
	if unit == "KiB" && most > 4<<10 {
		scale, unit = 1<<10, "MiB"
	}
	if unit != "" {
		unit = ", " + unit
	}
	w, h := float64(column-left-right), float64(high-top-bottom)
	hours := float64(rows[len(rows)-1].hour)
	px := func(hour int) float64 { return float64(x+left) + float64(hour)/hours*w }
	marks := axis(float64(most)/scale, scale == 1)
	py := func(v float64) float64 { return float64(y+top) + (1-v/marks[len(marks)-1])*h }
	fmt.Fprintf(b, `<text class="p" x="%d" y="%d">%s%s</text>`+"\n", x+12, y+16, m.name, unit)
	fmt.Fprintf(b, `<rect class="w" x="%.1f" y="%d" width="%.1f" height="%.0f"/>`+"\n", px(0), y+top, px(warm)-px(0), h)
	for _, v := range marks {
		fmt.Fprintf(b, `<path class="g" d="M%d %.1fh%.0f"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", x+left, py(v), w, x+left-6, py(v)+4, strconv.FormatFloat(v, 'f', -1, 64))
	}
	for hour := 0; hour <= int(hours); hour += 12 {
		fmt.Fprintf(b, `<text x="%.1f" y="%.0f" text-anchor="middle">%d</text>`+"\n", px(hour), float64(y+top)+h+16, hour)
	}
	b.WriteString(`<path class="s" d="`)
	for i, r := range rows {
		fmt.Fprintf(b, "%c%.1f %.1f", "ML"[min(i, 1)], px(r.hour), py(float64(m.of(r))/scale))
	}
	b.WriteString(`"/>` + "\n")
}

// axis is what to write beside a panel whose largest value is most: from 0 up in
// at most four steps of 1, 2 or 5 times a power of ten, the last at that value or above
// it. whole keeps the steps from being parts of what is counted.
func axis(most float64, whole bool) []float64 {
	power := int(math.Floor(math.Log10(most))) - 1
	if whole {
		power = max(power, 0)
	}
	for ; ; power++ {
		for _, digit := range []float64{1, 2, 5} {
			// Dividing by a power of ten gives the number that its text is read as.
			mark := func(i int) float64 {
				if power < 0 {
					return float64(i) * digit / math.Pow10(-power)
				}
				return float64(i) * digit * math.Pow10(power)
			}
			var marks []float64
			for i := range 5 {
				if marks = append(marks, mark(i)); mark(i) >= most {
					return marks
				}
			}
		}
	}
}
