// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"windhover/appliance"
)

func newInfo() *cobra.Command {
	var sums, memory bool
	cmd := &cobra.Command{
		Use:   "info FILE",
		Short: "Show what is in a VQF, GGUF or safetensors file",
		Long: `Shows size, version, flags, architecture and every tensor of a VQF file, and what
the groups of tensors weigh; for GGUF also the metadata and how many tensors there
are of each type; a Hugging Face directory or a .safetensors file likewise. Reads
the header only, but for --sums: those are of the bytes as they are stored, so that
two files can be told apart tensor by tensor. A VQF or GGUF file that would be
refused still shows what stands before what is wrong, and the exit code is 1.`,
		Example: `  windhover info model.vqf
  windhover info --json model.vqf | jq .flag_names
  windhover info --sums model.gguf`,
		Args: models(1, cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			doc, err := inspect(a[0])
			if err != nil {
				return err
			}
			if sums && (doc.refused == nil || doc.DataOffset > 0) { // else nobody knows where the tensors are
				update, end := progress(cmd, "hashing")
				err := doc.addSums(cmd.Context(), update)
				end()
				if err != nil {
					return err
				}
			}
			if memory && doc.refused == nil {
				if err := doc.addMemory(); err != nil {
					return err
				}
			}
			if wantJSON(cmd) {
				doc.Error = newJSONError(doc.refused)
				err = printJSON(cmd, doc)
			} else {
				err = doc.print(cmd.OutOrStdout())
			}
			if err == nil && doc.refused != nil {
				err = shownError{doc.refused}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&sums, "sums", false, "add a SHA-256 per tensor; reads the whole file")
	cmd.Flags().BoolVar(&memory, "memory", false, "add how the model would be held in this machine's memory now, and why")
	return cmd
}

// inspect looks at what path is.
func inspect(path string) (*infoDoc, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	magic := appliance.FileMagic(path)
	switch {
	case fi.IsDir():
		return inspectDir(path)
	case filepath.Ext(path) == ".safetensors":
		return inspectSafetensors(path)
	case magic == "GGUF":
		return inspectGGUF(path)
	}
	// Also what no VQF file is: the refusal says why.
	return inspectVQF(path)
}
