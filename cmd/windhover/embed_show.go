// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"windhover/control"
)

const (
	maxSimilar   = 24 // texts whose cosines still make a table
	similarRunes = 48 // of a text beside them
)

// vectorsDoc is what embed and send --embed print with --json.
type vectorsDoc struct {
	ID         string           `json:"id,omitempty"`
	Embeddings [][]float32      `json:"embeddings"`
	Similarity [][]float64      `json:"similarity,omitempty"`
	Usage      control.Usage    `json:"usage"`
	Timing     control.Timing   `json:"timing"`
	Model      control.ModelRef `json:"model"`
}

// vectors shows embeddings: each as it comes, or all at the end.
type vectors struct {
	cmd     *cobra.Command
	list    *textList
	similar bool
	kept    [][]float32
	count   int
	size    int // numbers of each
}

func newVectors(cmd *cobra.Command, list *textList, similar bool) *vectors {
	return &vectors{cmd: cmd, list: list, similar: similar}
}

// late says that nothing is shown before all is there.
func (v *vectors) late() bool { return v.similar || wantJSON(v.cmd) }

// progress is of so many tokens. One text is over soon, and where vectors run over the
// terminal they show it themselves.
func (v *vectors) progress(total int) (update func(done, total int64), end func()) {
	if len(v.list.texts) == 1 || isTerminal(v.cmd.OutOrStdout()) && !v.late() {
		return func(_, _ int64) {}, func() {}
	}
	return progressIn(v.cmd, "embedding", inTokens)
}

// take shows or keeps the vector of text i, the next one.
func (v *vectors) take(i int, numbers []float32) error {
	if i != v.count {
		return fmt.Errorf("%s has no vector: that of another came in its place", v.list.name(v.count))
	}
	v.count, v.size = v.count+1, len(numbers)
	if v.late() {
		v.kept = append(v.kept, numbers)
		return nil
	}
	return printJSON(v.cmd, numbers)
}

// finish closes the answer: what was kept, and how fast it was.
func (v *vectors) finish(id string, u control.Usage, t control.Timing, model control.ModelRef) error {
	if n := len(v.list.texts); v.count != n {
		return fmt.Errorf("%d of %s have vectors", v.count, several(n, "text"))
	}
	var cosines [][]float64
	if v.similar {
		cosines = similarity(v.kept)
	}
	if wantJSON(v.cmd) {
		return printJSON(v.cmd, vectorsDoc{id, v.kept, cosines, u, t, model})
	}
	if v.similar {
		if err := table(v.cmd, similarRows(cosines, v.list.texts)); err != nil {
			return err
		}
	}
	text := fmt.Sprintf("%s of %s in %.2f s; %s", several(v.count, "vector"), several(v.size, "number"), float64(t.TotalMS)/1000, several(u.Prompt, "token"))
	if u.Cached > 0 {
		text += fmt.Sprintf(", %d of them known", u.Cached)
	}
	if t.PrefillTPS > 0 {
		text += fmt.Sprintf(", %.0f tok/s", t.PrefillTPS)
	}
	note(v.cmd, "%s", text)
	return nil
}

// similarity are the cosines of all pairs of vectors that have length 1.
func similarity(list [][]float32) [][]float64 {
	rows := make([][]float64, len(list))
	for i, a := range list {
		rows[i] = make([]float64, len(list))
		for j, b := range list {
			for k := range a {
				rows[i][j] += float64(a[k]) * float64(b[k])
			}
		}
	}
	return rows
}

// similarRows is a table of cosines, with the beginning of each text at the end of its row.
func similarRows(cosines [][]float64, texts []string) [][]string {
	head := []string{""}
	rows := [][]string{nil}
	for i, row := range cosines {
		number := strconv.Itoa(i + 1)
		head = append(head, fmt.Sprintf("%6s", number))
		line := []string{number}
		for _, c := range row {
			line = append(line, fmt.Sprintf("%6.3f", c))
		}
		rows = append(rows, append(line, beginning(texts[i], similarRunes)))
	}
	rows[0] = head
	return rows
}

// beginning is a text on one line of at most n runes, without what a terminal would obey.
func beginning(text string, n int) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text[:min(len(text), 16*n)])
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return string(runes)
}
