// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"windhover/appliance"
	"windhover/control"
)

func newJobs() *cobra.Command {
	var broker brokerFlags
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List the jobs of the running appliance",
		Long: `Lists conversions and verifications, oldest first: all of them through the local
socket, or with --broker those of --client that the broker keeps.`,
		Example: `  windhover jobs
  windhover jobs --broker mqtts://broker.example:8883 --device edge1 --username ops --password-file secret`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			jobs, err := listJobs(cmd, &broker)
			if err != nil {
				return err
			}
			if wantJSON(cmd) {
				return printJSON(cmd, append([]control.JobRecord{}, jobs...))
			}
			return printJobs(cmd, jobs)
		},
	}
	broker.add(cmd)
	cmd.AddCommand(newJobsCancel())
	return cmd
}

func listJobs(cmd *cobra.Command, broker *brokerFlags) ([]control.JobRecord, error) {
	if broker.broker != "" {
		return retainedJobs(cmd, broker)
	}
	if err := idle(cmd, "without --broker: the local socket knows all jobs", "device", "client", "username", "password-file",
		"ca-file", "cert-file", "key-file", "allow-plaintext", "timeout"); err != nil {
		return nil, err
	}
	cfg, err := loadConfig(cmd)
	if err != nil {
		return nil, err
	}
	return appliance.LocalJobs(cmd.Context(), cfg)
}

// retainedQuiet is the silence after which the broker has sent all it keeps.
const retainedQuiet = 500 * time.Millisecond

// retainedJobs collects the records of one client that the broker keeps.
func retainedJobs(cmd *cobra.Command, broker *brokerFlags) ([]control.JobRecord, error) {
	cfg, err := broker.config(cmd)
	if err != nil {
		return nil, err
	}
	if err := checkEndpoint(cmd, cfg.Endpoint); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	topics := control.Topics{Device: cfg.Device}
	quiet := time.AfterFunc(broker.timeout, cancel)
	defer quiet.Stop()
	byID, heard := map[string]control.JobRecord{}, false
	// The status is always kept: it shows that messages come through at all.
	err = control.Watch(ctx, cfg.Endpoint, []string{topics.Status(), topics.Job(cfg.Name, "+")}, func(topic string, _ bool, payload []byte) {
		quiet.Reset(retainedQuiet)
		heard = true
		if j, err := control.DecodeJob(payload); err == nil && topic == topics.Job(cfg.Name, j.ID) {
			byID[j.ID] = *j
		}
	})
	if cmd.Context().Err() != nil || !errors.Is(err, context.Canceled) {
		return nil, appliance.DialError(err, cfg.Endpoint.URL)
	}
	if !heard {
		return nil, fmt.Errorf("%w: broker %s keeps nothing of device %q: is that its name?", appliance.ErrUnreachable, control.Redact(cfg.Endpoint.URL), cfg.Device)
	}
	var jobs []control.JobRecord
	for _, j := range byID {
		jobs = append(jobs, j)
	}
	slices.SortFunc(jobs, func(a, b control.JobRecord) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return jobs, nil
}

func printJobs(cmd *cobra.Command, jobs []control.JobRecord) error {
	if len(jobs) == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "no jobs")
		return err
	}
	rows := [][]string{{"JOB", "TYPE", "CLIENT", "STATUS", "PROGRESS", "UPDATED"}}
	for _, j := range jobs {
		status, problem := j.Status, ""
		if j.Status == control.JobRunning && j.Phase != "" {
			status += "/" + j.Phase
		}
		if j.Error != nil {
			problem = j.Error.Code.Name + ": " + j.Error.Message
		}
		rows = append(rows, []string{j.ID, j.Type, j.Client, status, fmt.Sprintf("%d %%", j.Progress.Pct),
			j.UpdatedAt.Local().Format(time.DateTime), problem})
	}
	return table(cmd, rows)
}
