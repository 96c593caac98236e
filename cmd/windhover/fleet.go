// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
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

// tryAgain is the pause between two tries to reach a broker that is not there.
const tryAgain = 2 * time.Second

// watchFleet connects to the broker and waits until what is retained of all devices,
// and of the documents of the targets, is there. A broker that cannot be reached is
// tried again for as long as wait says, and that is told.
func (b *brokerFlags) watchFleet(cmd *cobra.Command, wait time.Duration, targets ...ota.Target) (*control.Monitor, *fleet.Roster, error) {
	b.device, b.timeout = "fleet", 15*time.Second // it is no device that is asked
	cfg, err := b.config(cmd)
	if err != nil {
		return nil, nil, err
	}
	if err := checkEndpoint(cmd, cfg.Endpoint); err != nil {
		return nil, nil, err
	}
	m, err := b.dialMonitor(cmd.Context(), cfg.Endpoint, fleet.Filters(targets...))
	for began, told := time.Now(), false; errors.Is(err, appliance.ErrUnreachable) && time.Since(began)+tryAgain < wait; told = true {
		if !told {
			note(cmd, "windhover: %s: trying again for %v", message(err), wait)
		}
		select {
		case <-time.After(tryAgain):
			m, err = b.dialMonitor(cmd.Context(), cfg.Endpoint, fleet.Filters(targets...))
		case <-cmd.Context().Done():
			return nil, nil, context.Cause(cmd.Context())
		}
	}
	if err != nil {
		return nil, nil, err
	}
	r := fleet.NewRoster()
	if err := fleet.Gather(cmd.Context(), m, r, gatherWithin); err != nil {
		m.Close()
		return nil, nil, err
	}
	return m, r, nil
}

// dialMonitor connects once.
func (b *brokerFlags) dialMonitor(ctx context.Context, ep control.Endpoint, filters []string) (*control.Monitor, error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout+5*time.Second)
	defer cancel()
	m, err := control.DialMonitor(ctx, ep, filters)
	if err != nil {
		return nil, appliance.DialError(err, ep.URL)
	}
	return m, nil
}
