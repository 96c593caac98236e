// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"windhover/appliance/audit"
)

func newAudit() *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Short: "Look at the record of what was asked of a box", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	var expect []string
	verify := &cobra.Command{
		Use:   "verify FILE...",
		Short: "Verify that nobody has changed audit files",
		Long: `Reads the files that audit.file of a box names, the full ones and the one that is
being written, in whichever order they are given, and checks that each line holds the
hash of the one before. Says how many records there are, from when to when, where some
are missing because the disk took none, and where a power cut tore a file; then the
number and the hash of the last record. The first line that does not belong where it
stands is an error, and the exit code is 1.

Whoever may write the files can make a new chain of all of them, and a tail that is cut
off leaves no trace. So keep numbers and hashes elsewhere: the statistics of a box and
its log have them (audit_seq and audit_head). --expect requires one of them.`,
		Example: `  windhover audit verify /var/lib/windhover/audit/audit.jsonl*
  windhover audit verify --expect 1207:9f2c… audit.jsonl*`,
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			var places []audit.Place
			for _, e := range expect {
				p, err := audit.ParsePlace(e)
				if err != nil {
					return usagef(cmd, "--expect: %v", err)
				}
				places = append(places, p)
			}
			report, err := verifyAudit(cmd.Context(), a, places)
			if err != nil {
				return err
			}
			return printAudit(cmd, report)
		},
	}
	verify.Flags().StringArrayVar(&expect, "expect", nil, "a record that must be there, as SEQ:HASH; may be given several times")
	cmd.AddCommand(verify)
	return cmd
}

// verifyAudit opens the files and verifies them.
func verifyAudit(ctx context.Context, paths []string, expect []audit.Place) (_ *audit.Report, err error) {
	var files []audit.File
	for _, path := range paths {
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe is not waited for
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }() // nothing was written
		fi, err := f.Stat()
		if err != nil {
			return nil, err
		}
		if !fi.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is no regular file", path)
		}
		files = append(files, audit.File{Name: path, ReaderAt: f, Size: fi.Size()})
	}
	return audit.Verify(ctx, files, expect)
}

// printAudit shows what was found.
func printAudit(cmd *cobra.Command, r *audit.Report) error {
	err := r.Err()
	if wantJSON(cmd) {
		doc := struct {
			*audit.Report
			Error *jsonError `json:"error,omitempty"`
		}{r, newJSONError(err)}
		if err := printJSON(cmd, doc); err != nil {
			return err
		}
		if err != nil {
			return shownError{err}
		}
		return nil
	}
	rows := [][]string{{"files", fmt.Sprint(len(r.Files))}}
	if r.Records > 0 {
		rows = append(rows, [][]string{
			{"records", fmt.Sprintf("%d, from number %d on", r.Records, r.First)},
			{"from", r.From.Format(time.RFC3339)},
			{"to", r.To.Format(time.RFC3339)},
			{"starts", fmt.Sprintf("%d, %d of them without a stop before", r.Starts, r.Unclean)},
			{"gaps", fmt.Sprintf("%d, of %s", r.Gaps, several(int(r.Lost), "record"))},
			{"repairs", fmt.Sprint(r.Repairs)},
		}...)
	} else {
		rows = append(rows, []string{"records", "none"})
	}
	if r.Back > 0 {
		rows = append(rows, []string{"clock", "went back " + several(int(r.Back), "time")})
	}
	for _, n := range r.Notes {
		text := fmt.Sprintf("record %d: %s missing, from %s to %s: %s", n.Seq, several(int(n.Lost), "record"), n.Since, n.Until, n.Reason)
		if n.Kind == audit.KindRepair {
			text = fmt.Sprintf("record %d: no records in %s of %s from offset %d on: %s", n.Seq, several(int(n.Bytes), "byte"), n.File, n.Offset, n.Reason)
		}
		rows = append(rows, []string{n.Kind, text})
	}
	if r.Unfinished > 0 {
		rows = append(rows, []string{"unfinished", several(int(r.Unfinished), "byte") + " behind the last record: it is being written, or was cut off"})
	}
	for _, a := range r.Expected {
		if a.Found {
			rows = append(rows, []string{"expected", fmt.Sprintf("record %d is there", a.Seq)})
		}
	}
	if r.Records > 0 {
		rows = append(rows, []string{"last", r.Last.String()})
	}
	if shown := table(cmd, rows); shown != nil || err == nil {
		return shown
	}
	return errors.New(oneLine(err))
}
