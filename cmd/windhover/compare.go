// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"windhover/appliance"
)

func newCompare() *cobra.Command {
	var keyFile string
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Tell equal from differing tensors of two model files",
		Long: `Compares two files of one format: VQF, GGUF, safetensors, or Hugging Face
directories of those (the weights in them only). What the headers say is compared
field by field, tensors of the same name byte by byte; of two encrypted files, or an
encrypted and a plain one, the plain bytes are compared. Memory does not grow with
the files.

Exits with 0 if all is equal, else with 1.`,
		Example: `  windhover compare old.vqf new.vqf
  windhover compare --json a.gguf b.gguf | jq '.tensors[] | select(.state != "equal")'`,
		Args: models(2, cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, a []string) (err error) {
			key, err := appliance.ReadPassphrase(keyFile)
			if err != nil {
				return err
			}
			start := time.Now()
			var files [2]*comparedFile
			for i, path := range a {
				update, end := progress(cmd, "opening "+path)
				files[i], err = openCompared(cmd.Context(), path, key, update)
				end()
				if err != nil {
					return keyHint(err)
				}
				defer func() { err = errors.Join(err, files[i].close()) }()
			}
			if err := sameFormat(files, a); err != nil {
				return err
			}
			update, end := progress(cmd, "comparing")
			defer end()
			d, err := compareFiles(cmd.Context(), files[0], files[1], update)
			if err != nil {
				return err
			}
			end()
			d.A, d.B, d.Seconds = a[0], a[1], time.Since(start).Seconds()
			if wantJSON(cmd) {
				err = printJSON(cmd, d)
			} else {
				err = d.print(cmd)
			}
			if err == nil && !d.Equal {
				err = errSilent // diff's way: the exit code says it
			}
			return err
		},
	}
	addKeyFileFlag(cmd, &keyFile)
	addProgressFlag(cmd)
	return cmd
}

func sameFormat(files [2]*comparedFile, paths []string) error {
	if files[0].format == files[1].format {
		return nil
	}
	for i, f := range files {
		if f.format == "vqf" {
			other := paths[1-i]
			return fmt.Errorf("%s is %s and %s is VQF, whose tensors have other names and bytes: convert %s with the same options, then compare the results",
				other, files[1-i].format, paths[i], other)
		}
	}
	return fmt.Errorf("%s is %s and %s is %s: their tensors have other names and bytes; convert both and compare the results", paths[0], files[0].format, paths[1], files[1].format)
}
