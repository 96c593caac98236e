// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

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
			rows := [][]string{
				{"device", doc.Device}, {"state", doc.State}, {"version", doc.Version}, {"up", fmt.Sprintf("%d s", doc.Uptime)},
				{"mqtt", doc.MQTT}, {"kernels", doc.Kernels}, {"drop models into", doc.Drop},
				{"queue", fmt.Sprintf("%d waiting, %d in work", doc.Stats.Queue, doc.Stats.Active)},
				{"memory", fmt.Sprintf("%d MiB resident, %d MiB available", doc.Stats.RSSBytes>>20, doc.Stats.MemAvailable>>20)},
			}
			if s := doc.Stats; s.TempC != 0 {
				rows = append(rows, []string{"heat", heatLine(s)})
			}
			if err := table(cmd, rows); err != nil {
				return err
			}
			return printModels(cmd, doc.Models)
		},
	}
	addConfigFlag(cmd)
	return cmd
}

// heatLine says how hot the box is and what that costs.
func heatLine(s control.Stats) string {
	line := fmt.Sprintf("%.0f °C", s.TempC)
	if s.Throttled {
		line += ", slowed down"
	}
	if s.RestingCores > 0 {
		line += ", " + several(s.RestingCores, "core") + " at rest"
	}
	return line
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
	rows := [][]string{{"MODEL", "VERSION", "STATE", "MODE", "CONTEXT", "MIB", "TOK/S"}}
	for _, m := range models {
		row := []string{m.Name, m.Version, m.State, m.Mode, "", "", "", ""}
		if m.Context > 0 {
			row[4] = fmt.Sprint(m.Context)
		}
		if m.Bytes > 0 {
			row[5] = fmt.Sprintf("%.1f", float64(m.Bytes)/(1<<20))
		}
		if m.TokS.Decode > 0 {
			row[6] = fmt.Sprintf("%.1f", m.TokS.Decode)
		}
		var notes []string
		if m.Default {
			notes = append(notes, "default")
		}
		if m.Have < m.Bytes && m.Have > 0 {
			notes = append(notes, fmt.Sprintf("%d of %d bytes are there", m.Have, m.Bytes))
		}
		if m.Error != nil {
			notes = append(notes, m.Error.Code.Name+": "+m.Error.Message)
		}
		row[7] = strings.Join(notes, ", ")
		rows = append(rows, row)
	}
	return table(cmd, rows)
}
