// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// steady are hours of a daemon that stays as it is, but for what goes up and down.
func steady(n int) []row {
	var rows []row
	for h := 1; h <= n; h++ {
		wave := int64(h*7%5) * 300
		rows = append(rows, row{hour: h, rss: 60000 + wave, anon: 40000 + wave, heap: 9000 + wave/4, goroutines: 50 + int64(h%2), files: 30,
			state: 400, inodes: 60, models: 5, runtime: 20000 + wave, cache: 1900 + wave/10, journal: 8000, written: int64(h) * 100, answered: int64(h) * 80, scan: 12})
	}
	for h := range min(n, warm-1) { // while caches fill
		rows[h].anon, rows[h].heap = 20000, 5000
	}
	return rows
}

func notFlat(t *testing.T, rows []row) []string {
	t.Helper()
	list, err := judge(rows)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range list {
		if !v.flat() {
			names = append(names, v.name)
		}
	}
	return names
}

func TestSteadyHoursAreFlat(t *testing.T) {
	for _, n := range []int{12, 24, 72} {
		if names := notFlat(t, steady(n)); len(names) != 0 {
			t.Errorf("%d hours: not flat: %v", n, names)
		}
	}
}

// A leak shows whether it comes bit by bit or all at once, and however it hides.
func TestWhatGrowsIsFound(t *testing.T) {
	for _, c := range []struct {
		name string
		grow func(r *row, hour int64)
	}{
		{"anonymous, but prefixes", func(r *row, h int64) { r.anon += 40 * h }},
		{"anonymous, but prefixes", func(r *row, h int64) { r.anon += (h / 60) * 4000 }},
		{"kept prefixes", func(r *row, h int64) { r.cache += h / 40 * 2200; r.anon += h / 40 * 2200 }},
		{"heap after collection", func(r *row, h int64) { r.heap += 40 * h }},
		{"goroutines", func(r *row, h int64) { r.goroutines += h / 15 }},
		{"open files", func(r *row, h int64) { r.files += h / 15 }},
		{"state without models", func(r *row, h int64) { r.state += 5 * h }},
		{"model files", func(r *row, h int64) { r.models += h / 16 }},
		{"files in it", func(r *row, h int64) { r.inodes += h / 2 }},
	} {
		rows := steady(72)
		for i := range rows {
			c.grow(&rows[i], int64(rows[i].hour))
		}
		if names := notFlat(t, rows); !slices.Equal(names, []string{c.name}) {
			t.Errorf("%s: found %v", c.name, names)
		}
	}
}

func TestTooFewHoursSayNothing(t *testing.T) {
	if _, err := judge(steady(2*warm - 1)); err == nil {
		t.Error("hours that were not enough were judged")
	}
	if _, err := judge(append(steady(20), row{hour: 22})); err == nil {
		t.Error("an hour is missing, and nobody says so")
	}
}

func TestLogIsReadAsItWasWritten(t *testing.T) {
	rows := steady(24)
	rows[20].failed = 1
	var b strings.Builder
	fmt.Fprintln(&b, "== 24 hours\n"+header)
	for _, r := range rows {
		fmt.Fprintln(&b, r)
		fmt.Fprintln(&b, "ok      something at 3:00")
	}
	file := filepath.Join(t.TempDir(), "log")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(b.String())
	if _, _, err := readLog(file); err == nil || !strings.Contains(err.Error(), "end") {
		t.Errorf("a log without an end: %v", err)
	}
	write(b.String() + "FAILED  something at 4:00\nend     1 answered\n")
	got, failures, err := readLog(file)
	if err != nil || failures != 1 || !slices.Equal(got, rows) {
		t.Errorf("read %v, %d failures, %v; wrote %v", got, failures, err, rows)
	}
	if err := judgeLog(file, filepath.Join(t.TempDir(), "x.svg")); err == nil || !strings.Contains(err.Error(), "FAILED") {
		t.Errorf("a log with a failure: %v", err)
	}
}

func TestDrawingIsXML(t *testing.T) {
	svg := draw(steady(72))
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(svg, `class="s"`); n != len(measures)+1 {
		t.Errorf("%d lines", n)
	}
}

// What stands beside a panel are round numbers, and what it shows fits below the last.
func TestAxis(t *testing.T) {
	for _, tt := range []struct {
		most  float64
		whole bool
		want  string
	}{
		{1, true, "[0 1]"}, {3, true, "[0 1 2 3]"}, {16, true, "[0 5 10 15 20]"}, {70, true, "[0 20 40 60 80]"}, {100, true, "[0 50 100]"}, {4096, true, "[0 2000 4000 6000]"},
		{0.7, false, "[0 0.2 0.4 0.6 0.8]"}, {1, false, "[0 0.5 1]"}, {4.001, false, "[0 2 4 6]"}, {38.21, false, "[0 10 20 30 40]"},
	} {
		if got := fmt.Sprint(axis(tt.most, tt.whole)); got != tt.want {
			t.Errorf("up to %v: %s, want %s", tt.most, got, tt.want)
		}
	}
	for most := 1.0; most < 1e7; most *= 1.01 {
		marks := axis(most, true)
		if last := marks[len(marks)-1]; len(marks) > 5 || last < most || last > 2.5*most {
			t.Errorf("up to %v: %v", most, marks)
		}
	}
}

// What a box reported: of a document that is refused no model is named.
func TestReported(t *testing.T) {
	const refused = `{"v":1,"rev":2,"target":"device/edge1","status":"failed","bucket":0,"error":{"code":"manifest_expired","status":412,"message":"document 2 for device/edge1 expired at 2026-12-30T17:53:19Z: publish a new one"},"at":"2027-01-11T00:55:01.814738928Z"}`
	if err := reported(refused, `"rev":2`, `"status":"failed"`, `"code":"manifest_expired"`); err != nil {
		t.Error(err)
	}
	if reported(refused, current("1.2")...) == nil {
		t.Error("a refused document is taken for one that is carried out")
	}
}

// Each happening comes in 72 hours, and one that is set right is set wrong before.
func TestHappenings(t *testing.T) {
	off := 0
	for minute := 1; minute <= 72*60; minute++ {
		for _, h := range happenings {
			if !h.due(minute) || !strings.HasPrefix(h.name, "clock ") {
				continue
			}
			if off++; h.name == "clock right" {
				off = 0
			} else if off > 1 {
				t.Errorf("minute %d: %s while the clock is wrong", minute, h.name)
			}
		}
	}
	if off != 0 {
		t.Error("at the end the clock is wrong")
	}
	for _, h := range happenings {
		if h.at < 1 || h.at > 71*60 || h.every < 0 {
			t.Errorf("%s: at minute %d, every %d", h.name, h.at, h.every)
		}
	}
}

// Mappings are added up by their names, and those without by where they lie.
func TestAnonymousByMappings(t *testing.T) {
	smaps := `00010000-010d0000 r-xp 00000000 fe:00 1234                       /usr/bin/windhover
Size:              16576 kB
Anonymous:             0 kB
010e0000-01140000 rw-p 010d0000 fe:00 1234                       /usr/bin/windhover
Anonymous:           116 kB
AnonHugePages:         0 kB
4000000000-4000400000 rw-p 00000000 00:00 0
Anonymous:          2048 kB
4000400000-4004000000 ---p 00000000 00:00 0
Anonymous:             0 kB
ffff8c000000-ffff8c100000 rw-p 00000000 00:00 0
Anonymous:           600 kB
ffff8d000000-ffff8d100000 rw-p 00000000 00:00 0                  [stack of one]
Anonymous:            12 kB
`
	kib, count, err := anonymous(strings.NewReader(smaps))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(kib), "map[/usr/bin/windhover:116 0x0:2048 0xff:600 [stack_of_one]:12]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if count["0x0"] != 2 || count["/usr/bin/windhover"] != 2 {
		t.Errorf("counts %v", count)
	}
	for _, wrong := range []string{"zz-1 r-xp 0 0 0 x\n", "1-2 r-xp 0 0 0 x\nAnonymous: many kB\n"} {
		if _, _, err := anonymous(strings.NewReader(wrong)); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}
