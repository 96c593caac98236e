// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"windhover/appliance"
	"windhover/control"
	"windhover/control/ota"
)

// installRequest is what model_install takes (docs/PROTOCOL.md, "Jobs").
type installRequest struct {
	Record   *ota.Envelope `json:"record"`
	URLs     []string      `json:"urls"`
	IndexURL string        `json:"index_url,omitempty"`
	Keep     int           `json:"keep"`
	Window   string        `json:"window,omitempty"`
	MaxBPS   int64         `json:"max_bps,omitempty"`
	MaxBytes int64         `json:"max_bytes,omitempty"`
	Again    bool          `json:"again,omitempty"`
	Health   *onTrial      `json:"health,omitempty"`
}

// onTrial is what of the health of a document an installation sets; the rest is the
// appliance's.
type onTrial struct {
	ObserveS    *int     `json:"observe_s,omitempty"`
	MinTPSRatio *float64 `json:"min_tps_ratio,omitempty"`
}

func newInstall() *cobra.Command {
	var broker brokerFlags
	var id, rate, most string
	var observe time.Duration
	var speed float64
	p := installRequest{}
	cmd := &cobra.Command{
		Use:   "install RECORD --url URL",
		Short: "Have an appliance download, try and serve a signed release",
		Long: `Gives an appliance the signed record of a release (windhover sign) and tells where
its file is to be had. The appliance checks the signature, downloads, verifies, loads
and tries it, lets it serve on trial, and keeps it if it holds; otherwise the version
before serves. Ctrl-C stops following; the job goes on. The local socket is used, or
with --broker any broker.`,
		Example: `  windhover install qwen3-0.6b-1.4.0.dsse --url https://cdn.example/qwen3-0.6b-1.4.0.vqf
  windhover install release.dsse --url https://cdn.example/m.vqf --broker mqtts://broker.example:8883 --device edge1`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			if len(p.URLs) == 0 {
				return usagef(cmd, "--url is needed: where the file is to be had")
			}
			var err error
			if p.MaxBPS, err = appliance.ParseSize(rate); err != nil {
				return usagef(cmd, "--max-rate: %v", err)
			}
			if p.MaxBytes, err = appliance.ParseSize(most); err != nil {
				return usagef(cmd, "--max-bytes: %v", err)
			}
			p.Health = new(onTrial) // what is not said is the appliance's own
			if cmd.Flags().Changed("observe") {
				seconds := int(observe / time.Second)
				p.Health.ObserveS = &seconds
			}
			if cmd.Flags().Changed("min-speed") {
				p.Health.MinTPSRatio = &speed
			}
			data, err := readDocument(a[0])
			if err != nil {
				return err
			}
			if p.Record, err = ota.ParseEnvelope(data, ota.MaxDocument); err != nil {
				return fmt.Errorf("%s: %w", a[0], err)
			}
			return runModelJob(cmd, &broker, "model_install", id, p)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&p.URLs, "url", nil, "where the file is; several are tried in turn")
	f.StringVar(&p.IndexURL, "index-url", "", "where its block index is (default: the first URL with .index behind it)")
	f.IntVar(&p.Keep, "keep", 2, "versions of the model that stay installed")
	f.StringVar(&p.Window, "window", "", "when to download, such as 02:00-05:00, by the clock of the appliance")
	f.StringVar(&rate, "max-rate", "0", "bytes a second, such as 1M; 0: no limit")
	f.StringVar(&most, "max-bytes", "0", "bytes over the network in all, such as 2G; 0: no limit")
	f.DurationVar(&observe, "observe", 5*time.Minute, "how long the version is on trial")
	f.Float64Var(&speed, "min-speed", 0.7, "share of the tokens a second of the version before that it has to reach")
	f.BoolVar(&p.Again, "again", false, "although this version was tried and refused before")
	f.StringVar(&id, "id", "", "id of the job; the same id never runs twice (default: a new one)")
	broker.add(cmd)
	return cmd
}

// newModelVerb is a verb that takes the name of a model; version, if it is not nil, a
// version of it.
func newModelVerb(name, typ, short, long string, version *string) *cobra.Command {
	var broker brokerFlags
	var id string
	cmd := &cobra.Command{
		Use: name + " MODEL", Short: short, Long: long,
		Example: "  windhover " + name + " qwen3-0.6b\n  windhover " + name + " qwen3-0.6b --broker mqtts://broker.example:8883 --device edge1",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			p := struct {
				Model   string `json:"model"`
				Version string `json:"version,omitempty"`
			}{Model: a[0]}
			if version != nil {
				p.Version = *version
			}
			return runModelJob(cmd, &broker, typ, id, p)
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "id of the job; the same id never runs twice (default: a new one)")
	broker.add(cmd)
	return cmd
}

func newActivate() *cobra.Command {
	var version string
	cmd := newModelVerb("activate", "model_activate", "Make a model the default one", `Makes a model that serves the default: the one that answers requests which name none.
With --version an older version that is still installed serves; what is newer is taken
back, as by rollback.`, &version)
	cmd.Flags().StringVar(&version, "version", "", "version that an update installed (default: the one that serves)")
	return cmd
}

func newRollback() *cobra.Command {
	return newModelVerb("rollback", "model_rollback", "Take a model back to the version before", `Lets the version before serve again. It works for models that came by an update; the
version that is taken back is not installed again by the document that asks for it.`, nil)
}

func newRemove() *cobra.Command {
	return newModelVerb("remove", "model_remove", "Take a model off an appliance", `Takes a model off the appliance: its versions are removed once their requests have
ended. Of a model in the drop directory the file is removed. One that a fleet wants stays
away until a later document wants it.`, nil)
}

func newJobsCancel() *cobra.Command {
	var broker brokerFlags
	var whose string
	cmd := &cobra.Command{
		Use:     "cancel JOB",
		Short:   "Ask a job to end",
		Long:    `Asks a job to end. Its record says what became of it.`,
		Example: "  windhover jobs cancel j7",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			return runModelJob(cmd, &broker, "job_cancel", "", struct {
				Target string `json:"target"`
				Client string `json:"client,omitempty"`
			}{a[0], whose})
		},
	}
	cmd.Flags().StringVar(&whose, "of", "", "client whose job it is (default: the caller)")
	broker.add(cmd)
	return cmd
}

// runModelJob gives a command through the local socket, or with --broker over MQTT, and
// follows its record to the end.
func runModelJob(cmd *cobra.Command, broker *brokerFlags, typ, id string, params any) error {
	if broker.broker != "" {
		return runJob(cmd, broker, typ, id, params)
	}
	if err := idle(cmd, "without --broker: the local socket is used", "device", "username", "password-file",
		"ca-file", "cert-file", "key-file", "allow-plaintext", "timeout"); err != nil {
		return err
	}
	payload, err := json.Marshal(params)
	if err != nil {
		return err
	}
	cfg, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	name := broker.client
	if name == "" {
		name = clientName("")
	}
	if id == "" {
		id = control.NewID()
	}
	update, end := progress(cmd, typ)
	defer end()
	told := false
	record, err := appliance.LocalJob(cmd.Context(), cfg, appliance.JobRequest{Type: typ, Client: name, ID: id, Params: payload}, func(j *control.JobRecord) {
		if !told && !j.Final() {
			told = true
			note(cmd, "job %s of %s", j.ID, j.Client)
		}
		update(j.Progress.Done, j.Progress.Total)
	})
	end()
	var coded *control.Error
	switch {
	case cmd.Context().Err() != nil && record != nil && !record.Final():
		note(cmd, "job %s goes on: windhover jobs shows it", id)
		return errSilent
	case record != nil && record.Final() && wantJSON(cmd):
		if perr := printJSON(cmd, record); perr != nil || err == nil {
			return perr
		}
		return shownError{err} // it stands in the record
	case errors.As(err, &coded):
		return appliance.AnswerError(err, "")
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "job %s %s\n", record.ID, record.Status)
	return err
}
