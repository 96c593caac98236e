// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"windhover/internal/testmodel"
)

// Texts of several batches have the vectors that they have alone, in their order.
func TestEmbedInBatches(t *testing.T) {
	c := testmodel.Default()
	c.Random, c.Embeds = true, true
	model := testmodel.Write(t, c)
	embed := func(in string, arguments ...string) []string {
		t.Helper()
		var out, stderr bytes.Buffer
		if code := run(t.Context(), append([]string{"embed", model}, arguments...), strings.NewReader(in), &out, &stderr); code != exitOK {
			t.Fatalf("exit code %d: %s", code, stderr.String())
		}
		return strings.Split(strings.TrimSpace(out.String()), "\n")
	}
	var texts []string
	for i := range 2*embedBatch + 3 {
		texts = append(texts, strings.Repeat(fmt.Sprintf("text %d ", i), 1+i%5))
	}
	all := embed(strings.Join(texts, "\n"), "--file", "-")
	if len(all) != len(texts) {
		t.Fatalf("%d vectors, want %d", len(all), len(texts))
	}
	for _, i := range []int{0, embedBatch - 1, embedBatch, 2 * embedBatch, len(texts) - 1} {
		if alone := embed("", texts[i]); all[i] != alone[0] {
			t.Errorf("text %d: %s among others, %s alone", i, all[i], alone[0])
		}
	}
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != len(texts) {
		t.Errorf("%d different vectors, want %d", n, len(texts))
	}
}

func TestSimilarity(t *testing.T) {
	got := similarRows(similarity([][]float32{{1, 0}, {0.6, -0.8}, {-0.6, 0.8}}), []string{"a", "b\n\x1b[31m c", strings.Repeat("é", similarRunes+1)})
	want := [][]string{
		{"", "     1", "     2", "     3"},
		{"1", " 1.000", " 0.600", "-0.600", "a"},
		{"2", " 0.600", " 1.000", "-1.000", "b [31m c"},
		{"3", "-0.600", "-1.000", " 1.000", strings.Repeat("é", similarRunes-1) + "…"},
	}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A line end of Windows is one; of what stands in lines nothing else is taken away.
func TestLineTexts(t *testing.T) {
	cmd := newEmbed()
	cmd.SetIn(strings.NewReader(" a \r\nb\t\nc"))
	l, err := lineTexts(cmd, "-")
	if err != nil || !slices.Equal(l.texts, []string{" a ", "b\t", "c"}) {
		t.Errorf("%q, %v", l.texts, err)
	}
}
