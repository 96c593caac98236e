// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"windhover/appliance"
	"windhover/control"
	"windhover/control/fleet"
	"windhover/control/ota"
)

func newFleet() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Roll a release out to many appliances, and see what they run",
		Args:  args(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newFleetRollout(), newFleetStatus())
	return cmd
}

// gatherWithin bounds how long the broker may take to send what it retains.
const gatherWithin = 30 * time.Second

// watchFleet connects to the broker and waits until what is retained of all devices,
// and of the documents of the targets, is there.
func (b *brokerFlags) watchFleet(cmd *cobra.Command, targets ...ota.Target) (*control.Monitor, *fleet.Roster, error) {
	b.device, b.timeout = "fleet", 15*time.Second // it is no device that is asked
	cfg, err := b.config(cmd)
	if err != nil {
		return nil, nil, err
	}
	if err := checkEndpoint(cmd, cfg.Endpoint); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), b.timeout+5*time.Second)
	defer cancel()
	m, err := control.DialMonitor(ctx, cfg.Endpoint, fleet.Filters(targets...))
	if err != nil {
		return nil, nil, appliance.DialError(err, cfg.Endpoint.URL)
	}
	r := fleet.NewRoster()
	if err := fleet.Gather(cmd.Context(), m, r, gatherWithin); err != nil {
		m.Close()
		return nil, nil, err
	}
	return m, r, nil
}
