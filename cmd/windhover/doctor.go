// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"windhover/appliance"
)

func newDoctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine and the appliance on it",
		Long: `Looks at cores, frequency and heat, memory against the installed models, storage,
the drop directory and the broker, and says what to do about what it finds. A
request is sent through the broker to the appliance and back, if both run.

ok is fine, warn works but could be better, FAIL must be repaired: the exit code
is then 1.`,
		Example: `  windhover doctor
  sudo -u windhover windhover doctor      with the rights of the service`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			report, err := appliance.Doctor(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			if wantJSON(cmd) {
				err = printJSON(cmd, report)
			} else {
				err = printFindings(cmd, report)
			}
			if err == nil && !report.OK {
				err = errSilent
			}
			return err
		},
	}
	addConfigFlag(cmd)
	return cmd
}

func printFindings(cmd *cobra.Command, r *appliance.DoctorReport) error {
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, f := range r.Findings {
		if _, err := fmt.Fprintf(w, "%s\t%s\t%s\n", f.Status, f.Name, f.Detail); err != nil {
			return err
		}
		if f.Advice != "" {
			if _, err := fmt.Fprintf(w, "\t\t-> %s\n", f.Advice); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}
