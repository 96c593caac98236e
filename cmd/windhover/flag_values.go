// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"windhover/engine"
)

// Values that flags of several verbs take.
var (
	modeValues      = []string{"auto", "q4", "q8", "dual", "q4i", "g256"}
	layoutValues    = []string{"8x8", "4x4", "row"}
	headerValues    = []string{"auto", "41", "45"}
	kvValues        = []string{"f16", "int8"}
	familyValues    = []string{"q4", "q8"}
	residencyValues = []string{engine.ResidencyAuto, engine.ResidencyFull, engine.ResidencyExperts, engine.ResidencyLayered}
)

// completes lets a shell complete the values of a flag, in this order, where it would
// complete names of files.
func completes(cmd *cobra.Command, name string, values ...string) {
	list := make([]cobra.Completion, len(values))
	copy(list, values)
	// It fails only for a flag that is not there, or that has them already.
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveKeepOrder))
}
