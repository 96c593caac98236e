// SPDX-License-Identifier: Apache-2.0

package ota

import (
	"fmt"
	"time"
)

// Window is a time of day, from one minute up to another, over midnight too. The
// zero value is the whole day.
type Window struct{ from, to int } // minutes after midnight

// ParseWindow reads "02:00-05:00"; "" is the whole day.
func ParseWindow(s string) (Window, error) {
	if s == "" {
		return Window{}, nil
	}
	bad := fmt.Errorf("window %q is not of the form 02:00-05:00", s)
	if len(s) != len("02:00-05:00") || s[5] != '-' {
		return Window{}, bad
	}
	from, err1 := time.Parse("15:04", s[:5])
	to, err2 := time.Parse("15:04", s[6:])
	if err1 != nil || err2 != nil {
		return Window{}, bad
	}
	w := Window{from.Hour()*60 + from.Minute(), to.Hour()*60 + to.Minute()}
	if w.from == w.to {
		return Window{}, fmt.Errorf("window %q is empty: leave it out for the whole day", s)
	}
	return w, nil
}

// String is what ParseWindow reads.
func (w Window) String() string {
	if w == (Window{}) {
		return ""
	}
	return fmt.Sprintf("%02d:%02d-%02d:%02d", w.from/60, w.from%60, w.to/60, w.to%60)
}

// Open says whether a time, by its own zone, is in the window.
func (w Window) Open(t time.Time) bool {
	if w == (Window{}) {
		return true
	}
	m := t.Hour()*60 + t.Minute()
	if w.from < w.to {
		return w.from <= m && m < w.to
	}
	return m >= w.from || m < w.to
}

// Until is how long after t the window opens, 0 if it is open.
func (w Window) Until(t time.Time) time.Duration {
	if w.Open(t) {
		return 0
	}
	at := w.opening(t, 0)
	if !at.After(t) {
		at = w.opening(t, 1)
	}
	return at.Sub(t)
}

// opening is when the window opens on the day of t or one after. Where clocks are put
// forward over that minute it is when they go on.
func (w Window) opening(t time.Time, days int) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day()+days, w.from/60, w.from%60, 0, 0, t.Location())
}
