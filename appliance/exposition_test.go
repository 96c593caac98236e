// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// exposition is what /metrics says.
type exposition struct {
	text    string
	kinds   map[string]string  // type by metric
	helps   map[string]string  // by metric
	samples map[string]float64 // by name and labels, as they stand
}

// metrics asks a box for them.
func (b *box) metrics(t *testing.T) *exposition {
	t.Helper()
	code, body := b.ask(t, false, "GET", "/metrics", nil)
	if code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	e := &exposition{text: string(body), kinds: map[string]string{}, helps: map[string]string{}, samples: map[string]float64{}}
	for line := range strings.Lines(e.text) {
		line = strings.TrimSuffix(line, "\n")
		if f := strings.SplitN(line, " ", 4); f[0] == "#" && len(f) == 4 {
			map[string]map[string]string{"TYPE": e.kinds, "HELP": e.helps}[f[1]][f[2]] = f[3]
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		e.samples[line[:at]] = v
	}
	return e
}

// sum adds up all samples of a metric that have the labels, as they stand; -1 where
// there is none.
func (e *exposition) sum(name string, labels ...string) float64 {
	sum := -1.0
	for s, v := range e.samples {
		metric, rest, _ := strings.Cut(s, "{")
		has := metric == name
		for _, l := range labels {
			has = has && strings.Contains("{"+rest, l)
		}
		if has {
			sum = max(sum, 0) + v
		}
	}
	return sum
}

var labelName = regexp.MustCompile(`([a-z0-9_]+)="`)

// labels are the names of those that the samples of a metric have.
func (e *exposition) labels(name string) map[string]bool {
	found := map[string]bool{}
	for s := range e.samples {
		metric, rest, _ := strings.Cut(s, "{")
		if metric == name || e.kinds[name] == "histogram" && strings.HasPrefix(metric, name+"_") {
			for _, m := range labelName.FindAllStringSubmatch(rest, -1) {
				if m[1] != "le" {
					found[m[1]] = true
				}
			}
		}
	}
	return found
}

// shrunk names what is less than it was: counters, and what histograms count.
func (e *exposition) shrunk(before *exposition) (list []string) {
	for s, v := range before.samples {
		metric, _, _ := strings.Cut(s, "{")
		base := metric
		for _, end := range []string{"_bucket", "_sum", "_count"} {
			if b, ok := strings.CutSuffix(metric, end); ok && before.kinds[b] == "histogram" {
				base = b
			}
		}
		if kind := before.kinds[base]; kind != "counter" && kind != "histogram" {
			continue
		}
		if now, there := e.samples[s]; !there || now < v {
			list = append(list, s)
		}
	}
	return list
}
