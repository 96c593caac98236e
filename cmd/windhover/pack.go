// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"windhover/appliance"
	"windhover/vqf/convert"
)

func newPack() *cobra.Command {
	var tokenizer, out string
	cmd := &cobra.Command{
		Use:   "pack BARE.vqf --tokenizer FROM -o OUT.vqf",
		Short: "Add a tokenizer to a VQF file that has none",
		Long: `Writes a copy of a bare VQF file with tokenizer, chat template and stop tokens
inside, so that it can be served alone. The weights are copied byte for byte, and
their checksum is checked on the way.

FROM is a Hugging Face directory (tokenizer.json, or vocab.json with merges.txt,
and tokenizer_config.json, generation_config.json where there are any), a
tokenizer.json, the model's .gguf, or another .vqf.`,
		Example: `  windhover pack bare.vqf --tokenizer ~/models/Qwen3-0.6B -o qwen3-0.6b.vqf
  windhover pack model.vqf --tokenizer tokenizer.json -o model.vqf`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			if tokenizer == "" || out == "" {
				return usagef(cmd, "--tokenizer and -o are needed")
			}
			words, err := convert.ReadWords(tokenizer)
			if err != nil {
				return err
			}
			if err := checkOut(out); err != nil {
				return err
			}
			update, end := progress(cmd, "packing")
			defer end()
			r, err := convert.Pack(cmd.Context(), a[0], words, out, "windhover "+appliance.Version, func(done, total int64) { update(done/2, total/2) })
			if err != nil {
				return err
			}
			end()
			if wantJSON(cmd) {
				return printJSON(cmd, r)
			}
			template := "with a chat template"
			if !r.Template {
				template = "no chat template found: only plain continuation (--raw) will work"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "tokenizer  %s: %d tokens, stop ids %v, %s\nwrote %s: %d tensors, %s, file_sum=%s, %.2f seconds\n",
				r.Tokenizer, r.Tokens, r.StopIDs, template, r.Output, r.Tensors, mib(r.Bytes), r.FileSum, r.Seconds)
			return err
		},
	}
	cmd.Flags().StringVar(&tokenizer, "tokenizer", "", "where the tokenizer is")
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write")
	return cmd
}
