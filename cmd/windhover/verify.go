// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"windhover/vqf"
)

func newVerify() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Check everything in a VQF file that can be checked without running it",
		Long: `Reads the whole file once and prints a line for each check: magic, version,
header, size, flags, the offsets and their chain, the bytes of every tensor by
formula and by architecture, padding, embedded tokenizer, layouts, checksum.
A stored checksum of 0 means that the writer made none.

Exits with 1 when a check fails.`,
		Example: `  windhover verify model.vqf
  windhover verify --json model.vqf`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			update, end := progress(cmd, "verifying")
			defer end()
			report, err := vqf.Verify(cmd.Context(), a[0], vqf.VerifyOptions{}, update)
			if err != nil {
				return err
			}
			end()
			if !wantJSON(cmd) {
				if _, err := fmt.Fprint(cmd.OutOrStdout(), report); err != nil {
					return err
				}
				return report.Err()
			}
			err = printJSON(cmd, struct {
				*vqf.VerifyReport
				OK       bool       `json:"ok"`
				Stored   string     `json:"checksum_stored"`
				Computed string     `json:"checksum_computed"`
				Error    *jsonError `json:"error,omitempty"`
			}{report, report.OK(), hex64(report.Stored), hex64(report.Computed), newJSONError(report.Err())})
			if err == nil && !report.OK() {
				err = shownError{report.Err()}
			}
			return err
		},
	}
	addProgressFlag(cmd)
	return cmd
}

func hex64(n uint64) string { return fmt.Sprintf("0x%016x", n) }
