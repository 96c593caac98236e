// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"windhover/appliance"
)

// Groups of verbs in the help text.
const (
	groupAppliance = "appliance"
	groupModels    = "models"
	groupClient    = "client"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "windhover",
		Short: "A language model appliance for edge boxes",
		Long: `Windhover serves language models on edge boxes: drop a .vqf weight file into a
directory and it is verified, tried and swapped in; ask over MQTT and the answer
streams back as messages.

Exit codes: 0 ok, 1 failed, 2 usage, 3 unreachable, 4 denied.`,
		Version:       appliance.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		// Of the root alone: cobra runs the nearest one of a verb's parents.
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return noEmptyFlags(cmd) },
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().Bool("json", false, "print JSON on stdout")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{cmd, err} })
	root.AddGroup(
		&cobra.Group{ID: groupAppliance, Title: "The appliance:"},
		&cobra.Group{ID: groupModels, Title: "Model files:"},
		&cobra.Group{ID: groupClient, Title: "Clients of a running appliance:"},
	)
	for _, v := range []struct {
		group string
		cmd   *cobra.Command
	}{
		{groupAppliance, newServe()}, {groupAppliance, newDoctor()}, {groupAppliance, newConfig()}, {groupAppliance, newAudit()},
		{groupModels, newRun()}, {groupModels, newConvert()}, {groupModels, newInfo()}, {groupModels, newVerify()}, {groupModels, newCompare()},
		{groupModels, newEval()}, {groupModels, newEmbed()}, {groupModels, newTokenize()}, {groupModels, newPack()}, {groupModels, newKeygen()}, {groupModels, newSign()}, {groupModels, newIndex()}, {groupModels, newEncrypt()}, {groupModels, newDecrypt()}, {groupModels, newBench()},
		{groupClient, newSend()}, {groupClient, newModels()}, {groupClient, newStatus()}, {groupClient, newJobs()}, {groupClient, newJob()},
		{groupClient, newInstall()}, {groupClient, newActivate()}, {groupClient, newRollback()}, {groupClient, newRemove()}, {groupClient, newFleet()},
		{"", newVersion()},
	} {
		v.cmd.GroupID = v.group
		root.AddCommand(v.cmd)
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetHelpCommand(newHelp())
	return root
}

// newHelp is cobra's, but for an answer to a verb that is not there.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [VERB]",
		Short: "Show the help text of a verb",
		RunE: func(cmd *cobra.Command, a []string) error {
			about, rest, err := cmd.Root().Find(a)
			if err != nil || len(rest) > 0 {
				return usagef(cmd.Root(), "unknown command %q", strings.Join(a, " "))
			}
			return about.Help()
		},
	}
}

// noEmptyFlags refuses flags that are given without a value, as "$KEY" is when
// nobody has set it: what was asked for, such as a signature by that key, would
// silently be left out. Where an empty value means something it may stand.
func noEmptyFlags(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		switch f.Name {
		case "config", "system", "comment":
		default:
			// "-o=" with nothing behind it is taken for the value "=".
			if err == nil && (slices.Contains(values, "") || f.Shorthand != "" && slices.Contains(values, "=")) {
				err = usagef(cmd, "--%s is empty: give it a value, or leave it out", f.Name)
			}
		}
	})
	return err
}

// usageError is a mistake in the command line.
type usageError struct {
	cmd *cobra.Command
	err error
}

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// args wraps a cobra argument check so that its failure counts as usage and says
// what the verb takes.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, a []string) error {
		err := check(cmd, a)
		if err == nil {
			return nil
		}
		if cmd.HasSubCommands() { // "unknown command"
			return usageError{cmd, err}
		}
		problem, hint := "too many arguments", ""
		if len(a) == 0 || check(cmd, append(slices.Clone(a), "")) == nil {
			problem = "an argument is missing"
		} else if strings.Contains(cmd.Use, "PROMPT") || strings.Contains(cmd.Use, "TEXT") {
			hint = ", and a text of several words in quotes"
		}
		form := strings.TrimPrefix(cmd.Use, cmd.Name())
		return usagef(cmd, "%s: write %s%s%s", problem, cmd.CommandPath(), form, hint)
	}
}

func usagef(cmd *cobra.Command, format string, a ...any) error {
	return usageError{cmd, fmt.Errorf(format, a...)}
}

func isUsage(err error) bool {
	var u usageError
	return errors.As(err, &u)
}

// idle refuses flags that are given where they would change nothing, which is in
// some way, such as "without --nll".
func idle(cmd *cobra.Command, way string, names ...string) error {
	for _, n := range names {
		if cmd.Flags().Changed(n) {
			return usagef(cmd, "--%s says nothing %s", n, way)
		}
	}
	return nil
}
