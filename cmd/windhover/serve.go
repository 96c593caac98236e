// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"windhover/appliance"
)

func newServe() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the appliance",
		Long: `Serves every model in the drop directory and answers over MQTT, with the broker
inside the daemon unless mqtt.url names another. Stops on SIGTERM after the
requests in work; a second signal stops at once. SIGHUP reads the configuration again:
drop.require_signature, paths.trust and [updates] but for ca_file count at once, the log
names what needs a restart.`,
		Example: `  windhover serve
  WINDHOVER_PATHS_STATE=/srv/windhover windhover serve --config ""`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if wantJSON(cmd) {
				return usagef(cmd, "--json says nothing here: --log-format json writes the log so")
			}
			cfg, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("log-format") {
				cfg.Log.Format = format
			}
			handler, err := appliance.NewLogHandler(cmd.ErrOrStderr(), cfg.Log.Format)
			if err != nil {
				return usageError{cmd, err}
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			go secondSignal()
			hup := make(chan os.Signal, 1)
			signal.Notify(hup, syscall.SIGHUP)
			defer signal.Stop(hup)
			return appliance.Serve(cmd.Context(), cfg, appliance.ServeOptions{
				Log: slog.New(handler), Self: []string{self}, Reload: hup,
				Load: func() (appliance.Config, error) { return loadConfig(cmd) },
			})
		},
	}
	addConfigFlag(cmd)
	cmd.Flags().StringVar(&format, "log-format", "", "text or json (default: log.format)")
	return cmd
}

// secondSignal gives the second signal to stop its usual effect: the first one asks,
// and the daemon takes its time for the requests in work.
func secondSignal() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	<-signals
	again := <-signals
	signal.Reset(again)
	if err := syscall.Kill(os.Getpid(), again.(syscall.Signal)); err != nil {
		os.Exit(exitFailed)
	}
}
