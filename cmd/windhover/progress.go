// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
)

// addProgressFlag adds the hidden flag by which the appliance hears how far a
// child is.
func addProgressFlag(cmd *cobra.Command) {
	cmd.Flags().Int("progress-fd", 0, `write lines "DONE TOTAL" to this descriptor`)
	_ = cmd.Flags().MarkHidden("progress-fd") // fails only for a flag that is not there
}

// unit is what work is counted in, and how much of it makes a rate of one.
type unit struct {
	rate string
	per  float64
}

var (
	inBytes  = unit{"MB/s", 1e6}
	inTokens = unit{"tokens/s", 1}
)

// progress is progressIn for bytes.
func progress(cmd *cobra.Command, what string) (update func(done, total int64), end func()) {
	return progressIn(cmd, what, inBytes)
}

// progressIn shows how far long work is: a bar on a terminal, else a plain line at
// most every five seconds; with --progress-fd, lines for the parent process.
// update takes what is done and the total; end takes the bar away.
func progressIn(cmd *cobra.Command, what string, in unit) (update func(done, total int64), end func()) {
	if fd, err := cmd.Flags().GetInt("progress-fd"); err == nil && fd > 2 {
		f := os.NewFile(uintptr(fd), "progress")
		return machineProgress(f, time.Now), func() { _ = f.Close() } // the parent sees the end of the process too
	}
	w := cmd.ErrOrStderr()
	if !isTerminal(w) {
		return plainProgress(w, what, in, time.Now), func() {}
	}
	var bar *progressbar.ProgressBar
	update = func(done, total int64) {
		if bar == nil {
			rate := progressbar.OptionShowBytes(true)
			if in != inBytes {
				rate = progressbar.OptionShowIts()
			}
			bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what), rate,
				progressbar.OptionSetItsString(strings.TrimSuffix(in.rate, "/s")), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
				progressbar.OptionSetWidth(30), progressbar.OptionSetPredictTime(true))
			return // no rate yet: what is done took a time that the bar did not see
		}
		_ = bar.Set64(done) // a bar that cannot be drawn is no reason to stop
	}
	return update, func() {
		if bar != nil {
			_ = bar.Clear() // likewise
			bar = nil
		}
	}
}

// plainProgress takes the rate of the last half minute: work that is continued
// starts far, and reading back is faster than writing.
func plainProgress(w io.Writer, what string, in unit, now func() time.Time) func(done, total int64) {
	type mark struct {
		at   time.Time
		done int64
	}
	const every, most = 5 * time.Second, 30 * time.Second
	marks := []mark{{now(), 0}} // one for each line, oldest first
	return func(done, total int64) {
		t := now()
		if total <= 0 || done <= 0 || t.Sub(marks[len(marks)-1].at) < every {
			return
		}
		for len(marks) > 1 && t.Sub(marks[0].at) > most {
			marks = marks[1:]
		}
		rate := float64(done-marks[0].done) / t.Sub(marks[0].at).Seconds()
		marks = append(marks, mark{t, done})
		left := "?"
		if rate > 0 {
			seconds := min(float64(total-done)/rate, 1e6) // which is eleven days
			left = time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
		}
		_, _ = fmt.Fprintf(w, "%s: %d %%, %.0f %s, %s left\n", what, done*100/total, rate/in.per, in.rate, left) // only a remark
	}
}

// machineProgress writes a line at most every 100 ms, and the last one.
func machineProgress(w io.Writer, now func() time.Time) func(done, total int64) {
	var last time.Time
	return func(done, total int64) {
		if t := now(); done == total || t.Sub(last) >= 100*time.Millisecond {
			last = t
			_, _ = fmt.Fprintf(w, "%d %d\n", done, total) // a parent that is gone does not listen
		}
	}
}

// A statusLine is the last line of a terminal, which says what is under way until
// it is cleared.
type statusLine struct {
	w     io.Writer
	now   func() time.Time
	last  time.Time
	drawn bool
}

func newStatusLine(w io.Writer, now func() time.Time) *statusLine { return &statusLine{w: w, now: now} }

// show draws at most ten times a second.
func (s *statusLine) show(text string) {
	if t := s.now(); t.Sub(s.last) >= 100*time.Millisecond {
		s.last, s.drawn = t, true
		_, _ = fmt.Fprintf(s.w, "\r\x1b[K%s …", text) // only a remark
	}
}

func (s *statusLine) clear() {
	if s.drawn {
		s.drawn = false
		_, _ = io.WriteString(s.w, "\r\x1b[K") // likewise
	}
}
