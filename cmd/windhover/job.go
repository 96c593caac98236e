// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"windhover/appliance"
	"windhover/control"
)

func newJob() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "job",
		Short: "Have an appliance convert or verify a file",
		Long: `Submits a job over MQTT and follows it to its end. Files are named as they are in
the appliance's import directory. Ctrl-C stops following; the job goes on.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newJobConvert(), newJobVerify())
	return cmd
}

func newJobConvert() *cobra.Command {
	var broker brokerFlags
	var id string
	var p struct {
		Source       string `json:"source"`
		Out          string `json:"out,omitempty"`
		Mode         string `json:"mode,omitempty"`
		Q8Layout     string `json:"q8_layout,omitempty"`
		Header       string `json:"header,omitempty"`
		MaxSeq       int    `json:"max_seq,omitempty"`
		Bare         bool   `json:"bare,omitempty"`
		Optimize     bool   `json:"optimize,omitempty"`
		Mmproj       string `json:"mmproj,omitempty"`
		Encrypt      bool   `json:"encrypt,omitempty"`
		DeleteSource bool   `json:"delete_source,omitempty"`
	}
	cmd := &cobra.Command{
		Use:   "convert NAME",
		Short: "Convert a model in the import directory and serve it",
		Long: `Converts import/NAME, a GGUF file or a Hugging Face directory, on the appliance and
drops the result, which is then verified, tried and served like any other.`,
		Example: `  cp model.gguf /var/lib/windhover/import/
  windhover job convert model.gguf --out mymodel --mode q8`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			p.Source = a[0]
			return runJob(cmd, &broker, "convert", id, p)
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.Out, "out", "", "name of the model (default: NAME without its ending)")
	f.StringVar(&p.Mode, "mode", "", "auto, q4, q8, dual, q4i or g256 (default: auto)")
	f.StringVar(&p.Q8Layout, "q8-layout", "", "8x8, 4x4 or row (default: 8x8)")
	f.StringVar(&p.Header, "header", "", "auto, 41 or 45 (default: auto)")
	completes(cmd, "mode", modeValues...)
	completes(cmd, "q8-layout", layoutValues...)
	completes(cmd, "header", headerValues...)
	f.IntVar(&p.MaxSeq, "max-seq", 0, "context in the header, tokens")
	f.BoolVar(&p.Bare, "bare", false, "leave tokenizer and metadata out")
	f.BoolVar(&p.Optimize, "optimize", false, "choose four-bit scales and codes for the smallest error, instead of rounding")
	f.StringVar(&p.Mmproj, "mmproj", "", "file in the import directory with the vision tower of a GGUF model")
	f.BoolVar(&p.Encrypt, "encrypt", false, "encrypt the result with the passphrase of the appliance")
	f.BoolVar(&p.DeleteSource, "delete-source", false, "remove the source after success")
	f.StringVar(&id, "id", "", "id of the job; the same id never runs twice (default: a new one)")
	broker.add(cmd)
	return cmd
}

func newJobVerify() *cobra.Command {
	var broker brokerFlags
	var id string
	var p struct {
		Source string `json:"source,omitempty"`
		Model  string `json:"model,omitempty"`
	}
	cmd := &cobra.Command{
		Use:   "verify [NAME]",
		Short: "Check a file in the import directory, or a model that serves",
		Example: `  windhover job verify model.vqf
  windhover job verify --model mymodel`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			if len(a) == 1 {
				p.Source = a[0]
			}
			if (p.Source == "") == (p.Model == "") {
				return usagef(cmd, "give the NAME of a file or --model, one of them")
			}
			return runJob(cmd, &broker, "verify", id, p)
		},
	}
	cmd.Flags().StringVar(&p.Model, "model", "", "model that serves")
	cmd.Flags().StringVar(&id, "id", "", "id of the job; the same id never runs twice (default: a new one)")
	broker.add(cmd)
	return cmd
}

// runJob submits a job and follows its record to the end.
func runJob(cmd *cobra.Command, broker *brokerFlags, typ, id string, params any) error {
	payload, err := json.Marshal(params)
	if err != nil {
		return err
	}
	client, err := broker.dial(cmd)
	if err != nil {
		return err
	}
	defer client.Close()
	update, end := progress(cmd, typ)
	defer end()
	record, err := client.Command(cmd.Context(), typ, id, payload, func(j *control.JobRecord) {
		if id == "" {
			id = j.ID
			note(cmd, "job %s of %s", j.ID, j.Client)
		}
		update(j.Progress.Done, j.Progress.Total)
	})
	end()
	switch {
	case cmd.Context().Err() != nil && record == nil && id != "":
		note(cmd, "job %s goes on: windhover jobs shows it", id)
		return errSilent
	case record != nil && wantJSON(cmd):
		if perr := printJSON(cmd, record); perr != nil || err == nil {
			return perr
		}
		return shownError{err} // it stands in the record
	case err != nil:
		return appliance.AnswerError(err, broker.broker)
	}
	then := ""
	var result struct{ Output string }
	if json.Unmarshal(record.Result, &result) == nil && result.Output != "" {
		then = fmt.Sprintf(": %s is in the drop directory, windhover models tells when it serves", filepath.Base(result.Output))
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "job %s %s%s\n", record.ID, record.Status, then)
	return err
}
