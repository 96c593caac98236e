// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"
)

func TestStopper_P116(t *testing.T) {
	cases := []struct {
		name   string
		stops  []string
		pieces []string
		shown  []string // what each push shows
		found  bool
		rest   string // what flush shows
	}{
		{"none", nil, []string{"a", "b"}, []string{"a", "b"}, false, ""},
		{"inside a piece", []string{"x"}, []string{"axb"}, []string{"a"}, true, ""},
		{"across pieces", []string{"xyz"}, []string{"ax", "y", "zb"}, []string{"a", "", ""}, true, ""},
		{"almost", []string{"xyz"}, []string{"ax", "y", "a"}, []string{"a", "", "xya"}, false, ""},
		{"left over", []string{"xyz"}, []string{"axy"}, []string{"a"}, false, "xy"},
		{"begins again inside", []string{"aab"}, []string{"a", "a", "a", "b"}, []string{"", "", "a", ""}, true, ""},
		{"two, the earlier counts", []string{"zz", "b"}, []string{"abzz"}, []string{"a"}, true, ""},
		{"two, the longest prefix is held", []string{"xyz", "yq"}, []string{"xy", "q"}, []string{"", "x"}, true, ""},
		{"same beginning", []string{"xyz", "xy"}, []string{"xy"}, []string{""}, true, ""},
		{"nothing after", []string{"x"}, []string{"x", "more"}, []string{"", ""}, true, ""},
		{"characters", []string{"界"}, []string{"世", "界"}, []string{"世", ""}, true, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := stopper{stops: c.stops}
			found := false
			for i, p := range c.pieces {
				var got string
				if got, found = s.push(p); got != c.shown[i] {
					t.Errorf("push %q shows %q, want %q", p, got, c.shown[i])
				}
			}
			if found != c.found {
				t.Errorf("found %v, want %v", found, c.found)
			}
			if got := s.flush(); got != c.rest {
				t.Errorf("flush shows %q, want %q", got, c.rest)
			}
		})
	}
}

// However text is cut into pieces: what is shown is the text before the first
// stop string, or all of it, and nothing once shown would have to be taken back.
func FuzzStopper(f *testing.F) {
	f.Add("the quick brown fox", "ick b", "fo", uint8(3))
	f.Add("aaaaab", "aab", "b", uint8(1))
	f.Add("世界世界!", "界世", "!", uint8(2))
	f.Fuzz(func(t *testing.T, text, a, b string, size uint8) {
		var stops []string
		for _, s := range []string{a, b} {
			if s != "" {
				stops = append(stops, s)
			}
		}
		s := stopper{stops: stops}
		shown, found := "", false
		n := int(size)%7 + 1
		for from := 0; from < len(text) && !found; from += n {
			var piece string
			piece, found = s.push(text[from:min(from+n, len(text))])
			shown += piece
		}
		if !found {
			shown += s.flush()
		}
		if !strings.HasPrefix(text, shown) {
			t.Fatalf("%q shown of %q", shown, text)
		}
		hit := false
		for _, stop := range stops {
			if strings.Contains(shown, stop) {
				t.Errorf("%q shows the stop string %q", shown, stop)
			}
			hit = hit || strings.Contains(text, stop)
			if found && strings.HasPrefix(text[len(shown):], stop) {
				return
			}
		}
		if found {
			t.Errorf("stopped behind %q, no stop string follows in %q", shown, text)
		}
		if hit || shown != text {
			t.Errorf("%q shown of %q with stops %q", shown, text, stops)
		}
	})
}
