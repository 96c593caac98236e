// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"windhover/control"
	"windhover/control/fleet"
	"windhover/control/ota"
)

func newFleetStatus() *cobra.Command {
	var broker brokerFlags
	var group string
	cmd := &cobra.Command{
		Use:   "status --broker URL",
		Short: "Show what the devices of a fleet report of updates",
		Long: `Lists every device that the broker has anything retained of, with what it makes of the
document that counts for it: held (the roll-out has not reached it), queued, running,
current or failed. Devices that are offline are shown with what they reported last.`,
		Example: `  windhover fleet status --broker mqtts://broker.example:8883 --username fleet --password-file secret --group canary`,
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("group") && !control.ValidDevice(group) {
				return usagef(cmd, "--group %q: use 1 to 63 of a-z 0-9 -, starting with a letter or digit", group)
			}
			board, roster, err := broker.watchFleet(cmd, 0)
			if err != nil {
				return err
			}
			board.Close()
			devices := roster.Devices()
			if group != "" {
				devices = roster.Members(ota.Target{Group: group})
			}
			if wantJSON(cmd) {
				return printJSON(cmd, devices)
			}
			return printFleet(cmd, devices)
		},
	}
	cmd.Flags().StringVar(&group, "group", "", "devices of this group alone")
	broker.addBroker(cmd)
	return cmd
}

// printFleet prints a device a line, and how many there are of each kind.
func printFleet(cmd *cobra.Command, devices []fleet.Device) error {
	if len(devices) == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "no devices: the broker has nothing retained of any")
		return err
	}
	rows := [][]string{{"DEVICE", "STATE", "TARGET", "DOCUMENT", "UPDATE", "MODELS", "PROBLEM"}}
	kinds := map[string]int{}
	for _, d := range devices {
		state := d.Status.State
		if state == "" {
			state = "unknown"
		}
		row := []string{d.Name, state, "", "", "", "", ""}
		kind := "without updates"
		if r := d.Reported; r != nil {
			kind = r.Status
			row[2], row[4] = r.Target, r.Status
			if r.Rev > 0 {
				row[3] = fmt.Sprint(r.Rev)
			}
			row[5], row[6] = reportedModels(r.Models), problemOf(r)
		}
		kinds[kind]++
		rows = append(rows, row)
	}
	if err := table(cmd, rows); err != nil {
		return err
	}
	var sums []string
	for _, kind := range []string{control.DesiredCurrent, control.DesiredRunning, control.DesiredQueued, control.DesiredHeld, control.DesiredFailed, "without updates"} {
		if kinds[kind] > 0 {
			sums = append(sums, fmt.Sprintf("%d %s", kinds[kind], kind))
		}
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", several(len(devices), "device"), strings.Join(sums, ", "))
	return err
}

// reportedModels names models with their versions, and the phase of what is under way.
func reportedModels(models []control.ReportedModel) string {
	var names []string
	for _, m := range models {
		name := m.Name + "@" + m.Version
		if m.Phase != "" {
			name += " " + m.Phase
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// problemOf is why a device failed, "" if it has not.
func problemOf(r *control.Reported) string {
	if r.Error != nil {
		return r.Error.Code.Name + ": " + r.Error.Message
	}
	for _, m := range r.Models {
		if m.Error != nil {
			return m.Error.Code.Name + ": " + m.Error.Message
		}
	}
	return ""
}

// modelsOf names the models of a document.
func modelsOf(models []ota.Model, between string) string {
	var names []string
	for _, m := range models {
		names = append(names, fmt.Sprintf("%s@%s (release %d)", m.Name, m.Version, m.Release))
	}
	return strings.Join(names, between)
}
