// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"windhover/appliance"
)

func newDoctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine and the appliance on it",
		Long: `Looks at cores, clocks and heat, memory against the installed models, storage,
the drop directory and the broker, says what to do about what it finds, and how
to convert models for this machine. A request is sent through the broker to the
appliance and back, if both run.

ok is fine, warn works but could be better, bad must be repaired: the exit code
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
				err = report.Print(cmd.OutOrStdout())
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
