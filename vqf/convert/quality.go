// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"math"
	"strings"
	"text/tabwriter"

	"windhover/kernels"
	"windhover/vqf"
)

// tally is what quantising did to some weights.
type tally struct {
	Lost float64 `json:"lost"` // squares of what it took away
	All  float64 `json:"all"`  // squares of the weights
	Max  float32 `json:"max"`  // the most that it took away from one
}

func (t *tally) add(u tally) {
	t.Lost += u.Lost
	t.All += u.All
	t.Max = max(t.Max, u.Max)
}

// relative is the root of lost over all: 0.01 means one percent.
func (t tally) relative() float64 {
	if t.All == 0 {
		return 0
	}
	return math.Sqrt(t.Lost / t.All)
}

// rowErrors sets tallies[r] to what quantising did to row r; blocks are
// row-major. A row is summed in float32 and rows in float64, always in order, so
// that the sums do not depend on how the work is cut.
func (e *encoding) rowErrors(tallies []tally, blocks []byte, x []float32, cols int) {
	layout, size := kernels.Q8Row, e.size(cols)
	if e.bytes == kernels.Q4BlockBytes {
		layout = kernels.Q4Row
	}
	for r := range tallies {
		lost, all, most := kernels.BlockError(blocks[r*size:][:size], x[r*cols:][:cols], layout)
		tallies[r] = tally{float64(lost), float64(all), most}
	}
}

// tallies are kept by entry of the plan and by part of the entry.
type tallies [][]tally

// newTallies has a place for every part of every quantised entry.
func newTallies(p *pipeline) tallies {
	s := make(tallies, len(p.encs))
	for i := range p.encs {
		if p.encs[i].layout != 0 {
			s[i] = make([]tally, len(p.m.parts[role(p.plan.Tensors[i].Name)]))
		}
	}
	return s
}

func (s tallies) clone() tallies {
	out := make(tallies, len(s))
	for i := range s {
		out[i] = append([]tally(nil), s[i]...)
	}
	return out
}

// fits says whether s could have come from other's conversion.
func (s tallies) fits(other tallies) bool {
	if len(s) != len(other) {
		return false
	}
	for i := range s {
		if len(s[i]) != len(other[i]) {
			return false
		}
	}
	return true
}

// Quality is what quantising did to one tensor of the file, by layer where it
// has several.
type Quality struct {
	Tensor string  `json:"tensor"`
	Type   string  `json:"type"`
	Parts  int     `json:"parts"` // matrices one above the other: a layer each, or 1
	Rows   int     `json:"rows"`  // of a part; the directory's shape is another for some
	Cols   int     `json:"cols"`
	Bytes  uint64  `json:"bytes"`
	Error  float64 `json:"error"`     // relative RMS
	Max    float64 `json:"max_error"` // largest difference of a weight from the source's
	// By part; empty for tensors that are not quantised.
	PartErrors []float64 `json:"part_errors,omitempty"`
	PartMax    []float64 `json:"part_max_errors,omitempty"`

	sum tally
}

func newQuality(t vqf.Tensor, parts []matrix, list []tally) Quality {
	q := Quality{Tensor: t.Name, Type: t.Type.String(), Parts: len(parts), Bytes: t.Bytes}
	if len(parts) > 0 { // a vision tower without deepstack has empty entries
		q.Rows, q.Cols = parts[0].rows, parts[0].cols
	}
	for _, p := range list {
		q.sum.add(p)
		q.PartErrors = append(q.PartErrors, p.relative())
		q.PartMax = append(q.PartMax, float64(p.Max))
	}
	q.Error, q.Max = q.sum.relative(), float64(q.sum.Max)
	return q
}

// QualityTable is the report's second half: what the file holds, tensor by
// tensor, and how far its weights are from the source's, layer by layer.
func (r *Report) QualityTable() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(cells ...string) {
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) // into memory
	}
	// The last column ends without a tab and stands left.
	line("TYPE", "PARTS", "ROWS", "COLS", "MIB", "RMS", "LARGEST", "  TENSOR")
	var sum tally
	bytes := uint64(0)
	for i := range r.Quality {
		q := &r.Quality[i]
		sum.add(q.sum)
		bytes += q.Bytes
		rms, most := "-", "-"
		if len(q.PartErrors) > 0 {
			rms, most = percent(q.Error), fmt.Sprintf("%.2e", q.Max)
		}
		line(q.Type, fmt.Sprint(q.Parts), fmt.Sprint(q.Rows), fmt.Sprint(q.Cols), fmt.Sprintf("%.1f", float64(q.Bytes)/(1<<20)), rms, most, "  "+q.Tensor)
	}
	line("", "", "", "", fmt.Sprintf("%.1f", float64(bytes)/(1<<20)), percent(sum.relative()), fmt.Sprintf("%.2e", sum.Max), fmt.Sprintf("  all %d tensors", len(r.Quality)))
	_ = w.Flush() // into memory
	for _, family := range []string{"q8_", "q4_", "v_"} {
		b.WriteString(r.layerTable(family))
	}
	return b.String()
}

// layerTable has a row for each layer: the relative errors of a family's
// tensors, the worst of each marked, and the largest difference of any.
func (r *Report) layerTable(family string) string {
	var list []*Quality
	for i := range r.Quality {
		if q := &r.Quality[i]; strings.HasPrefix(q.Tensor, family) && len(q.PartErrors) > 1 {
			list = append(list, q)
		}
	}
	if len(list) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nrelative RMS by layer, * the worst of a tensor\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	head, layers := "LAYER", 0
	for _, q := range list {
		head += "\t" + q.Tensor + " "
		layers = max(layers, len(q.PartErrors))
	}
	_, _ = fmt.Fprintf(w, "%s\tLARGEST\t  IN\n", head) // into memory, here and below
	for l := range layers {
		_, _ = fmt.Fprintf(w, "%d", l)
		most, in := -1.0, ""
		for _, q := range list {
			if l >= len(q.PartErrors) {
				_, _ = fmt.Fprint(w, "\t")
				continue
			}
			mark := " "
			if worst(q.PartErrors) == l {
				mark = "*"
			}
			_, _ = fmt.Fprintf(w, "\t%s%s", percent(q.PartErrors[l]), mark)
			if q.PartMax[l] > most {
				most, in = q.PartMax[l], q.Tensor
			}
		}
		_, _ = fmt.Fprintf(w, "\t%.2e\t  %s\n", most, in)
	}
	_ = w.Flush()
	return b.String()
}

// worst is the index of the largest, the first of several.
func worst(x []float64) int {
	at := 0
	for i, v := range x {
		if v > x[at] {
			at = i
		}
	}
	return at
}

func percent(v float64) string { return fmt.Sprintf("%.3f%%", 100*v) }
