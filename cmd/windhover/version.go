// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"windhover/appliance"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if wantJSON(cmd) {
				return printJSON(cmd, map[string]string{"version": appliance.Version, "go": runtime.Version(), "arch": runtime.GOARCH})
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "windhover %s (%s, %s)\n", appliance.Version, runtime.Version(), runtime.GOARCH)
			return err
		},
	}
}
