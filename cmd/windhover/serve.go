// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"windhover/appliance"
)

func newServe() *cobra.Command {
	var format, level string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the appliance",
		Long: `Serves every model in the drop directory and answers over MQTT, with the broker
inside the daemon unless mqtt.url names another. Stops on SIGTERM after the
requests in work; a second signal stops at once. SIGHUP reads the configuration again:
the log names the keys that count at once and those that need a restart, or what is
wrong; see windhover.toml(5).`,
		Example: `  windhover serve
  WINDHOVER_PATHS_STATE=/srv/windhover windhover serve --config ""`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if wantJSON(cmd) {
				return usagef(cmd, "--json says nothing here: --log-format json writes the log so")
			}
			load := func() (appliance.Loaded, error) {
				l, err := readConfig(cmd)
				if cmd.Flags().Changed("log-format") {
					l.Config.Log.Format = format
				}
				if cmd.Flags().Changed("log-level") {
					l.Config.Log.Level = level
				}
				return l, err
			}
			l, err := load()
			if err != nil {
				return err
			}
			out, err := appliance.NewLogOutput(cmd.ErrOrStderr(), l.Config.Log)
			if err != nil {
				return usageError{cmd, err}
			}
			log.SetFlags(0) // libraries print there, net/http for one
			log.SetOutput(out.Writer())
			self, err := os.Executable()
			if err != nil {
				return err
			}
			go secondSignal()
			signal.Ignore(syscall.SIGPIPE) // a log whose reader is gone ends no daemon
			hup := make(chan os.Signal, 1)
			signal.Notify(hup, syscall.SIGHUP)
			defer signal.Stop(hup)
			return appliance.Serve(cmd.Context(), l.Config, appliance.ServeOptions{
				Log: out.Logger(), Out: out, Self: []string{self}, Reload: hup, Load: load, Warnings: l.Warnings,
			})
		},
	}
	addConfigFlag(cmd)
	cmd.Flags().StringVar(&format, "log-format", "", "text or json (default: log.format)")
	cmd.Flags().StringVar(&level, "log-level", "", "debug, info, warn or error (default: log.level)")
	completes(cmd, "log-format", "text", "json")
	completes(cmd, "log-level", "debug", "info", "warn", "error")
	return cmd
}

// recordEnd writes what ends a daemon, or keeps it from starting, as a record a line where
// its log is read by programs. It reports false where people read it.
func recordEnd(cmd *cobra.Command, lines []string) bool {
	flags := cmd.Flags()
	format, _ := flags.GetString("log-format") // serve has it
	if !flags.Changed("log-format") {
		path, _ := flags.GetString("config")
		format = appliance.FormatOf(path, os.Environ())
	}
	out, err := appliance.NewLogOutput(cmd.ErrOrStderr(), appliance.Log{Format: format})
	if err != nil || out.ForPeople() {
		return false
	}
	for _, line := range lines {
		out.Logger().Error("windhover cannot go on", "error", line)
	}
	return true
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
