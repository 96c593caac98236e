// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"windhover/appliance"
	"windhover/control"
)

func newStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of the running appliance",
		Args:  args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			doc, err := localStatus(cmd)
			if err != nil {
				return err
			}
			if wantJSON(cmd) {
				return printJSON(cmd, doc)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, row := range [][2]string{
				{"device", doc.Device}, {"state", doc.State}, {"version", doc.Version}, {"up", fmt.Sprintf("%d s", doc.Uptime)},
				{"mqtt", doc.MQTT}, {"kernels", doc.Kernels}, {"drop models into", doc.Drop},
				{"queue", fmt.Sprintf("%d waiting, %d in work", doc.Stats.Queue, doc.Stats.Active)},
				{"memory", fmt.Sprintf("%d MiB resident, %d MiB available", doc.Stats.RSSBytes>>20, doc.Stats.MemAvailable>>20)},
			} {
				if _, err := fmt.Fprintf(w, "%s\t%s\n", row[0], row[1]); err != nil {
					return err
				}
			}
			if err := w.Flush(); err != nil {
				return err
			}
			return printModels(cmd, doc.Models)
		},
	}
	addConfigFlag(cmd)
	return cmd
}

func newModels() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "models",
		Short: "List the models of the running appliance",
		Args:  args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			doc, err := localStatus(cmd)
			if err != nil {
				return err
			}
			if wantJSON(cmd) {
				return printJSON(cmd, doc.Models)
			}
			return printModels(cmd, doc.Models)
		},
	}
	addConfigFlag(cmd)
	return cmd
}

func localStatus(cmd *cobra.Command) (appliance.StatusDoc, error) {
	cfg, err := loadConfig(cmd)
	if err != nil {
		return appliance.StatusDoc{}, err
	}
	return appliance.LocalStatus(cmd.Context(), cfg)
}

func printModels(cmd *cobra.Command, models []control.Model) error {
	if len(models) == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "no models: drop a .vqf file")
		return err
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	if _, err := fmt.Fprintln(w, "MODEL\tVERSION\tSTATE\tMODE\tCONTEXT\tMIB\tTOK/S\t"); err != nil {
		return err
	}
	for _, m := range models {
		note := ""
		if m.Default {
			note = "default"
		}
		if m.Error != nil {
			note += " " + m.Error.Code.Name + ": " + m.Error.Message
		}
		if _, err := fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%.1f\t%s\n",
			m.Name, m.Version, m.State, m.Mode, m.Context, m.Bytes>>20, m.TokS.Decode, note); err != nil {
			return err
		}
	}
	return w.Flush()
}
