// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"windhover/control/fleet"
)

// rolloutScreen shows a roll-out: on a terminal as a table that is drawn again in its
// place, with --json as a document a line, else as lines of text.
type rolloutScreen struct {
	cmd   *cobra.Command
	w     io.Writer
	now   func() time.Time
	live  bool
	width int
	drawn int // lines of the table
	last  time.Time
	stage string // what the last line of text was about
	owed  string // a line that was held back
}

// lineEvery is how often a line of text says what has changed within a stage.
const lineEvery = 5 * time.Second

func newRolloutScreen(cmd *cobra.Command, s fleet.State) *rolloutScreen {
	w := cmd.OutOrStdout()
	r := &rolloutScreen{cmd: cmd, w: w, now: time.Now, live: isTerminal(w) && !wantJSON(cmd), width: 100}
	if f, ok := w.(interface{ Fd() uintptr }); ok && r.live {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			r.width = width
		}
	}
	if !wantJSON(cmd) {
		from := "nothing to go back to"
		if s.Before != nil {
			from = "before: " + modelsOf(s.Before.Models, ", ")
		}
		_, _ = fmt.Fprintf(w, "%s to %s (%s)\n", modelsOf(s.Wanted.Models, ", "), s.Wanted.Target, from) // a remark
	}
	return r
}

// show draws what has changed.
func (r *rolloutScreen) show(v fleet.View) {
	switch {
	case wantJSON(r.cmd):
		_ = printJSON(r.cmd, v) // the end says whether it went well
	case r.live:
		r.draw(v)
	default:
		r.line(v)
	}
}

// line says how the last stage stands, at most every five seconds and at its ends.
func (r *rolloutScreen) line(v fleet.View) {
	i := current(v)
	s := v.Stages[i]
	what := fmt.Sprintf("%s %%, document %d", fleet.Percentage(s.Percent), s.Rev)
	if s.Back {
		what = fmt.Sprintf("back, document %d (%s)", s.Rev, v.Reason)
	}
	if v.Away {
		what += " (the broker is away: trying again)"
	}
	text := fmt.Sprintf("%s: %d of %d done, %d failed, %d under way, %d waiting, %d away%s", what, s.OK, s.Due, s.Failed, s.Running, s.Waiting, s.Away, failuresOf(v))
	if what != r.stage {
		r.flush()
	}
	if r.owed = text; what != r.stage || s.Ended || r.now().Sub(r.last) >= lineEvery {
		r.flush()
	}
	r.stage = what
}

func (r *rolloutScreen) flush() {
	if r.owed != "" {
		_, _ = fmt.Fprintln(r.w, r.owed) // a remark
		r.owed, r.last = "", r.now()
	}
}

// end leaves what was shown last.
func (r *rolloutScreen) end() { r.flush() }

// current is the index of the stage that runs, or ran last.
func current(v fleet.View) int {
	last := 0
	for i, s := range v.Stages {
		if s.Rev > 0 {
			last = i
		}
	}
	return last
}

// draw draws the table in the place of the one before.
func (r *rolloutScreen) draw(v fleet.View) {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...any) {
		for _, c := range cells {
			_, _ = fmt.Fprintf(w, "%v\t", c) // into memory
		}
		_, _ = fmt.Fprintln(w)
	}
	row("STAGE", "DOCUMENT", "DEVICES", "DONE", "FAILED", "UNDER WAY", "WAITING", "AWAY")
	for _, s := range v.Stages {
		name := fleet.Percentage(s.Percent) + " %"
		if s.Back {
			name = "back"
		}
		if s.Rev == 0 {
			row(name, "", s.Due, "", "", "", "", "")
			continue
		}
		row(name, s.Rev, s.Due, s.OK, s.Failed, s.Running, s.Waiting, s.Away)
	}
	_ = w.Flush() // likewise
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	if v.Reason != "" {
		lines = append(lines, "taken back "+v.Reason)
	} else if f := failuresOf(v); f != "" {
		lines = append(lines, strings.TrimPrefix(f, "; "))
	}
	if v.Away {
		lines = append(lines, "the broker is away: trying again")
	}
	var out strings.Builder
	if r.drawn > 0 {
		fmt.Fprintf(&out, "\x1b[%dA\x1b[J", r.drawn)
	}
	for _, l := range lines {
		if runes := []rune(l); len(runes) >= r.width { // a line that wraps would be two
			l = string(runes[:r.width-1])
		}
		out.WriteString(l + "\n")
	}
	r.drawn = len(lines)
	_, _ = io.WriteString(r.w, out.String()) // a remark
}

// failuresOf names what failed, the most frequent first.
func failuresOf(v fleet.View) string {
	text := ""
	for _, f := range v.Failures {
		text += fmt.Sprintf("; %s: %d (%s)", f.Code, len(f.Devices), shortList(f.Devices, 5))
	}
	return text
}

// shortList names the first n of many.
func shortList(names []string, n int) string {
	if len(names) > n {
		return strings.Join(names[:n], " ") + fmt.Sprintf(" and %d more", len(names)-n)
	}
	return strings.Join(names, " ")
}
