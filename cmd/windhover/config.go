// SPDX-License-Identifier: Apache-2.0

package main

import (
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
	path, err := cmd.Flags().GetString("config")
	if err != nil {
		return appliance.Config{}, err
	}
	// The default may be absent; a file that somebody names must be there.
	return appliance.LoadConfig(path, cmd.Flags().Changed("config") && path != "", os.Environ())
}

func newConfig() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Look at the configuration", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	check := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration and print the merged result",
		Long: `Reads the configuration file, conf.d/*.toml beside it and the environment
(WINDHOVER_ and the key's path, as in WINDHOVER_MQTT_EMBEDDED_LISTEN), refuses what
is wrong with file, line and column, and prints what the daemon would use.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			text, err := cfg.TOML()
			if err != nil {
				return err
			}
			if wantJSON(cmd) { // under the keys of the file
				var doc map[string]any
				if err := toml.Unmarshal(text, &doc); err != nil {
					return err
				}
				return printJSON(cmd, doc)
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	addConfigFlag(check)
	cmd.AddCommand(check)
	return cmd
}
