// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"windhover/control/fleet"
	"windhover/control/ota"
)

// rolloutFlags are those of fleet rollout.
type rolloutFlags struct {
	broker           brokerFlags
	keys             []string
	stages           []float64
	success, failure float64
	least            int
	hold, patience   time.Duration
	wait             time.Duration
	state, backTo    string
	abort            bool
	signers          []ed25519.PrivateKey
	stateFile        string // found
}

func newFleetRollout() *cobra.Command {
	var f rolloutFlags
	cmd := &cobra.Command{
		Use:   "rollout DOCUMENT.json --key NAME.fleet.key --broker URL",
		Short: "Roll a document out in stages, and take it back when devices fail",
		Long: `Publishes a desired document, as sign takes it, for the group or device that it names:
signed, retained, first for 1 percent of the devices, then for 10, 50 and 100. A stage
has gone well when --success percent of its devices that are there report that they
have what they are to have; who is offline gets it when it comes back. The number, the
times and the percentage of the file are replaced for each stage.

When more than --failure percent have failed, of --least devices or more, or when so
many that the stage cannot go well any more, the document before goes out again under
a new number, for all, and the exit code is 1. Its models get the release number of
those that failed, because devices refuse a lower one. The document before is the one
of the roll-out before, else the one that the broker retains, if it is signed with one
of the keys, else --back.

The roll-out is kept in a file (--state): the same command again goes on where it was
cut off. --abort takes it back by hand. What is needed is a broker, for this program
and for the devices, and a web server with the files that the document names.`,
		Example: `  windhover fleet rollout desired.json --key works.fleet.key --broker mqtts://broker.example:8883 --username fleet --password-file secret
  windhover fleet rollout desired.json --key works.fleet.key --broker mqtt://localhost --stages 5,25,100 --hold 1h
  windhover fleet rollout desired.json --key works.fleet.key --broker mqtt://localhost --abort`,
		Args: models(1, cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error { return f.run(cmd, a[0]) },
	}
	l := fleet.DefaultLimits
	s := cmd.Flags()
	s.StringArrayVar(&f.keys, "key", nil, "file with a private fleet key; several sign together")
	s.Float64SliceVar(&f.stages, "stages", fleet.DefaultStages, "percentages of the devices, rising (for a single device: 100)")
	s.Lookup("stages").DefValue = "1,10,50,100" // which pflag writes with six digits
	s.Float64Var(&f.success, "success", 100*l.Success, "percent of a stage that have to have succeeded for the next one")
	s.Float64Var(&f.failure, "failure", 100*l.Failure, "percent above which failures take the roll-out back")
	s.IntVar(&f.least, "least", l.Least, "devices that have to have come to an end before --failure counts")
	s.DurationVar(&f.hold, "hold", 0, "how long a stage that has gone well is looked at before the next")
	s.DurationVar(&f.patience, "patience", 0, "how long a stage may take before this program ends and leaves it as it is (default: for ever)")
	s.DurationVar(&f.wait, "wait", 5*time.Minute, "how long to try again when the broker cannot be reached at the beginning; later it is waited for in any case")
	s.StringVar(&f.state, "state", "", "file that keeps the roll-out (default: fleet-TARGET.json here)")
	s.StringVar(&f.backTo, "back", "", "document to go back to (default: the one before)")
	s.BoolVar(&f.abort, "abort", false, "take the roll-out back now")
	f.broker.addBroker(cmd)
	return cmd
}

func (f *rolloutFlags) limits(cmd *cobra.Command) (fleet.Limits, error) {
	switch {
	case !(f.success > 0 && f.success <= 100):
		return fleet.Limits{}, usagef(cmd, "--success %v is not from above 0 to 100", f.success)
	case !(f.failure >= 0 && f.failure <= 100):
		return fleet.Limits{}, usagef(cmd, "--failure %v is not from 0 to 100", f.failure)
	case f.least < 1:
		return fleet.Limits{}, usagef(cmd, "--least %d: give 1 or more", f.least)
	case f.hold < 0 || f.patience < 0 || f.wait < 0:
		return fleet.Limits{}, usagef(cmd, "--hold, --patience and --wait are no less than 0")
	}
	return fleet.Limits{Success: f.success / 100, Failure: f.failure / 100, Least: f.least, Hold: f.hold}, nil
}

func (f *rolloutFlags) run(cmd *cobra.Command, path string) (err error) {
	lim, err := f.limits(cmd)
	if err != nil {
		return err
	}
	if f.signers, err = readFleetSigners(cmd, f.keys); err != nil {
		return err
	}
	wanted, err := readDesired(path)
	if err != nil {
		return err
	}
	if wanted.Target.Device != "" && !cmd.Flags().Changed("stages") {
		f.stages = []float64{100}
	}
	if f.stateFile = f.state; f.stateFile == "" {
		f.stateFile = "fleet-" + strings.ReplaceAll(wanted.Target.String(), "/", "-") + ".json"
	}
	if err := apart(cmd, "--state", f.stateFile, append([]string{path, f.backTo}, f.keys...)...); err != nil {
		return err
	}
	lock, err := lockRollout(f.stateFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	board, roster, err := f.broker.watchFleet(cmd, f.wait, wanted.Target)
	if err != nil {
		return err
	}
	defer board.Close()
	state, err := f.begin(cmd, wanted, roster)
	if err != nil {
		return err
	}
	if f.abort {
		state = state.Abort("by hand", roster.Devices(), time.Now())
	}
	for _, name := range state.OneWay() {
		note(cmd, "windhover: model %q: a device that has committed the new release cannot be taken back: the release record of the old one has a lower number", name)
	}
	screen := newRolloutScreen(cmd, state)
	c := fleet.Controller{
		Board: board, Roster: roster, Limits: lim, Patience: f.patience, Save: f.save, Show: screen.show,
		Sign: func(d *ota.Desired) []byte { return ota.Sign(ota.TypeDesired, d.Encode(), f.signers...).Encode() },
	}
	state, err = c.Run(cmd.Context(), state)
	screen.end()
	return f.ended(cmd, state, roster, err)
}

// ended is what the program says at last.
func (f *rolloutFlags) ended(cmd *cobra.Command, s fleet.State, r *fleet.Roster, err error) error {
	v := fleet.ViewOf(s, r.Devices())
	switch last := v.Stages[len(v.Stages)-1]; {
	case errors.Is(err, fleet.ErrSlow):
		return fmt.Errorf("%s %% does not come to an end: %s under way, %d away: the same command goes on with it, --abort takes it back", fleet.Percentage(s.Percent()), several(last.Open(), "device"), last.Away)
	case err != nil:
		return err
	case s.Phase == fleet.Aborted:
		return fmt.Errorf("the roll-out was taken back: %s: the version before is back on %d of %s, by document %d", s.Reason, last.OK, several(last.Due, "device"), s.Rev)
	case wantJSON(cmd):
		return nil // the last line has it
	default:
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "rolled out to %s: %d of %s, document %d\n", v.Target, last.OK, several(last.Due, "device"), s.Rev)
		return err
	}
}
