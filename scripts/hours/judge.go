// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"slices"
)

// warm is the hour after which nothing may grow: caches of a bounded size are full.
const warm = 6

// A measure is what has to stay as it is, and by how much it may differ at the end: its
// margin, for the middle of the last hours against that of the first ones after warm,
// and for what the line through all hours after warm rises. What fills to a bound may not
// be above it in any hour.
type measure struct {
	name, unit string
	margin     float64
	of         func(row) int64
	bound      int64 // 0: none
}

// caches is what prefixes may take: engine.cache_memory of two models (scripts/boot/hours).
const caches = 2 * 2 << 10 // KiB

var measures = []measure{
	{"anonymous, but prefixes", "KiB", 2 << 10, func(r row) int64 { return r.anon - r.cache }, 0},
	{"kept prefixes", "KiB", caches, func(r row) int64 { return r.cache }, caches},
	{"resident, all", "KiB", 2<<10 + caches, func(r row) int64 { return r.rss }, 0},
	{"heap after collection", "KiB", 1 << 10, func(r row) int64 { return r.heap }, 0},
	{"goroutines", "", 3, func(r row) int64 { return r.goroutines }, 0},
	{"open files", "", 3, func(r row) int64 { return r.files }, 0},
	{"state without models", "KiB", 256, func(r row) int64 { return r.state }, 0},
	{"model files", "", 2, func(r row) int64 { return r.models }, 0},
	{"files in it", "", 24, func(r row) int64 { return r.inodes }, 0},
}

// verdict is a measure over the hours.
type verdict struct {
	measure
	before, after float64 // medians of the first and last hours that count
	rise, sure    float64 // of the line from its first hour to its last, and twice its standard error
	most          int64   // of all hours
}

// flat says whether neither the end nor the line is above the beginning by more than
// the margin, and nothing above a bound.
func (v verdict) flat() bool {
	return v.after-v.before <= v.margin && v.rise <= v.margin && (v.bound == 0 || v.most <= v.bound)
}

func (v verdict) String() string {
	word := "ok     "
	if !v.flat() {
		word = "FAILED "
	}
	unit := v.unit
	if unit != "" {
		unit = " " + unit
	}
	text := fmt.Sprintf("%s %-23s %8.0f, at the end %8.0f%s; the line rises by %.1f ± %.1f, may %.0f", word, v.name, v.before, v.after, unit, v.rise, v.sure, v.margin)
	if v.bound > 0 {
		text += fmt.Sprintf("; at most %d of %d", v.most, v.bound)
	}
	return text
}

// judge wants some hours after warm: of fewer nothing can be said.
func judge(rows []row) ([]verdict, error) {
	for i, r := range rows {
		if r.hour != i+1 {
			return nil, fmt.Errorf("row %d is of hour %d", i+1, r.hour)
		}
	}
	if len(rows) < 2*warm {
		return nil, fmt.Errorf("%d hours: %d at least", len(rows), 2*warm)
	}
	rows = rows[warm-1:]
	part := max(3, min(6, len(rows)/3))
	var list []verdict
	for _, m := range measures {
		v := verdict{measure: m, before: median(rows[:part], m.of), after: median(rows[len(rows)-part:], m.of)}
		slope, sure := line(rows, m.of)
		span := float64(len(rows) - 1)
		v.rise, v.sure = slope*span, 2*sure*span
		for _, r := range rows {
			v.most = max(v.most, m.of(r))
		}
		list = append(list, v)
	}
	return list, nil
}

func median(rows []row, of func(row) int64) float64 {
	var list []int64
	for _, r := range rows {
		list = append(list, of(r))
	}
	slices.Sort(list)
	return float64(list[(len(list)-1)/2]+list[len(list)/2]) / 2
}

// line is the slope an hour of the line of least squares, and its standard error.
func line(rows []row, of func(row) int64) (slope, sure float64) {
	n := float64(len(rows))
	var mx, my float64
	for _, r := range rows {
		mx += float64(r.hour) / n
		my += float64(of(r)) / n
	}
	var xx, xy, left float64
	for _, r := range rows {
		dx := float64(r.hour) - mx
		xx += dx * dx
		xy += dx * (float64(of(r)) - my)
	}
	slope = xy / xx
	for _, r := range rows {
		e := float64(of(r)) - my - slope*(float64(r.hour)-mx)
		left += e * e
	}
	return slope, math.Sqrt(left / (n - 2) / xx)
}
