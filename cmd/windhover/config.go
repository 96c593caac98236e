// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"

	"windhover/appliance"
)

const defaultConfig = "/etc/windhover/config.toml"

// addConfigFlag adds --config; load reads what it names.
func addConfigFlag(cmd *cobra.Command) {
	cmd.Flags().String("config", defaultConfig, `configuration file; "" reads none`)
}

func loadConfig(cmd *cobra.Command) (appliance.Config, error) {
	l, err := readConfig(cmd)
	return l.Config, err
}

// readConfig is loadConfig with where the values come from.
func readConfig(cmd *cobra.Command) (appliance.Loaded, error) {
	path, err := cmd.Flags().GetString("config")
	if err != nil {
		return appliance.Loaded{}, err
	}
	// The default may be absent; a file that somebody names must be there.
	return appliance.ReadConfig(path, cmd.Flags().Changed("config") && path != "", os.Environ())
}

func newConfig() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Look at the configuration", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	check := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration and print the merged result",
		Long: `Reads the configuration file, conf.d/*.toml beside it and the environment
(WINDHOVER_ and the key's path, as in WINDHOVER_MQTT_EMBEDDED_LISTEN), refuses all that
is wrong with file, line and column, and prints what the daemon would use, and where
that stands if it is no default. Warns of files that are named and cannot be read.`,
		Example: `  windhover config check
  windhover config check --config ./config.toml --json`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return checkConfig(cmd) },
	}
	addConfigFlag(check)
	cmd.AddCommand(check)
	return cmd
}

func checkConfig(cmd *cobra.Command) error {
	l, err := readConfig(cmd)
	warnings := l.Warnings
	if err == nil {
		refused, more := l.CheckFiles()
		warnings = append(warnings, more...)
		if len(refused) > 0 {
			err = refused
		}
	}
	for _, w := range warnings {
		note(cmd, "windhover: warning: %v", w)
	}
	if err != nil {
		return configErrors(cmd, err, warnings)
	}
	text, err := l.TOML()
	if err != nil {
		return err
	}
	if wantJSON(cmd) { // under the keys of the file
		var doc map[string]any
		if err := toml.Unmarshal(text, &doc); err != nil {
			return err
		}
		doc["origins"], doc["warnings"] = l.Origins(), append([]appliance.Problem{}, warnings...)
		return printJSON(cmd, doc)
	}
	_, err = cmd.OutOrStdout().Write(text)
	return err
}

// configErrors has all that is wrong in the JSON document too.
func configErrors(cmd *cobra.Command, err error, warnings []appliance.Problem) error {
	var list appliance.Problems
	if !wantJSON(cmd) || !errors.As(err, &list) {
		return err
	}
	doc := map[string]any{"error": newJSONError(err), "errors": list, "warnings": append([]appliance.Problem{}, warnings...)}
	if err := printJSON(cmd, doc); err != nil {
		return err
	}
	return shownError{err}
}
