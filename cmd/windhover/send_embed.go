// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"

	"github.com/spf13/cobra"

	"windhover/appliance"
	"windhover/control"
)

// sendEmbed asks for the vectors of texts and shows them.
func sendEmbed(cmd *cobra.Command, broker *brokerFlags, model string, dimensions int, given []string) error {
	if err := checkDimensions(cmd, dimensions); err != nil {
		return err
	}
	list, err := givenTexts(cmd, given, maxRequestText)
	if err != nil {
		return err
	}
	r := control.NewRequest(control.OpEmbed)
	r.Model, r.Texts, r.Dimensions = model, list.texts, dimensions
	client, err := broker.dial(cmd)
	if err != nil {
		return err
	}
	defer client.Close()
	out := newVectors(cmd, list, false)
	a, err := client.Send(cmd.Context(), r, func(reply *control.Reply) error {
		switch reply.Type {
		case control.TypeAccepted:
			waiting(cmd, reply.Accepted)
		case control.TypeVector:
			return out.take(reply.Vector.Index, reply.Vector.Numbers)
		}
		return nil
	})
	if err != nil {
		return notAnswered(cmd, err, broker)
	}
	d := a.Done
	if d.Usage == nil || d.Timing == nil || d.Model == nil {
		return errOtherVersion
	}
	return out.finish(a.ID, *d.Usage, *d.Timing, *d.Model)
}

// errOtherVersion is of an end that lacks what it always has.
var errOtherVersion = errors.New("the appliance sent no usage and timing: it speaks another version")

// waiting says how many requests come first.
func waiting(cmd *cobra.Command, a *control.Accepted) {
	if a.Queue > 0 {
		note(cmd, "waiting: %d %s before this one", a.Queue, plural(a.Queue, "request"))
	}
}

// notAnswered is the end of a verb whose request failed with err.
func notAnswered(cmd *cobra.Command, err error, broker *brokerFlags) error {
	if cmd.Context().Err() != nil {
		note(cmd, "stopped")
		return errSilent
	}
	return appliance.AnswerError(err, broker.broker)
}
