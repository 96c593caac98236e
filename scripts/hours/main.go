// SPDX-License-Identifier: Apache-2.0

// Hours is the life of a box through days, for scripts/hours-test: what a fleet of
// devices asks of it and what happens around it, and whether the daemon is after all
// of that what it was before.
//
//	hours live -hours 72 -inputs DIR     on the box, as root, beside the daemon
//	hours judge [-svg FILE] LOG          of what that printed
//
// Live prints a row an hour, a line for each thing that happened, and FAILED before
// what should have gone otherwise. It goes by the monotonic clock, since one of the
// things that happen is that the other clock is set.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "hours:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("live or judge?")
	}
	set := flag.NewFlagSet(args[0], flag.ContinueOnError)
	hours := set.Int("hours", 72, "how long")
	inputs := set.String("inputs", ".", "directory of the models and documents of the fleet")
	svg := set.String("svg", "", "file for a drawing")
	if err := set.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "live":
		return live(*hours, *inputs)
	case "judge":
		if set.NArg() != 1 {
			return fmt.Errorf("judge wants one log")
		}
		return judgeLog(set.Arg(0), *svg)
	}
	return fmt.Errorf("%q: live or judge?", args[0])
}

// live is the hours, and whether all in them went as it should.
func live(hours int, inputs string) error {
	l, err := newLife(inputs)
	if err != nil {
		return err
	}
	defer l.end()
	fmt.Println(header)
	for minute := 1; minute <= hours*60; minute++ {
		l.until(minute)
		if minute%2 == 0 {
			l.one(minute)
		}
		for _, e := range happenings {
			if e.due(minute) {
				l.happen(e, minute)
			}
		}
		if minute%10 == 0 {
			l.look()
		}
		if minute%60 == 0 {
			fmt.Println(l.row(minute / 60))
		}
		if minute%240 == 0 {
			text, err := l.parts()
			if l.tell("parts", err); err == nil {
				fmt.Println("info    memory", text)
			}
		}
	}
	l.readJournal()
	fmt.Printf("end     %d answered, %d refused as they should be, %d failed, %s\n", l.answered.Load(), l.refused.Load(), l.failed.Load(), l.kinds())
	if n := l.failed.Load(); n > 0 {
		return fmt.Errorf("%d failed", n)
	}
	return nil
}

func judgeLog(file, svg string) error {
	rows, failures, err := readLog(file)
	if err != nil {
		return err
	}
	verdicts, err := judge(rows)
	if err != nil {
		return err
	}
	if svg != "" {
		if err := os.WriteFile(svg, []byte(draw(rows)), 0o644); err != nil {
			return err
		}
	}
	bad := 0
	for _, v := range verdicts {
		fmt.Println(v)
		if !v.flat() {
			bad++
		}
	}
	last := rows[len(rows)-1]
	fmt.Printf("%d hours: %d requests answered, %d refused as they should be, %d failed, %d restarts, %.1f MiB written to storage\n",
		last.hour, last.answered, last.refused, last.failed, last.restarts, float64(last.written)/1024)
	switch {
	case failures > 0:
		return fmt.Errorf("%s: %d lines begin with FAILED", file, failures)
	case last.restarts > 0:
		return fmt.Errorf("%s: the daemon restarted %d times", file, last.restarts)
	case bad > 0:
		return fmt.Errorf("%s: %d of %d measures are not flat", file, bad, len(verdicts))
	}
	return nil
}
