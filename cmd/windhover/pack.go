// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"windhover/appliance"
	"windhover/vqf/convert"
)

func newPack() *cobra.Command {
	var tokenizer, out, keyFile, signer string
	opt := convert.PackOptions{Converter: "windhover " + appliance.Version}
	cmd := &cobra.Command{
		Use:   "pack BARE.vqf --tokenizer FROM -o OUT.vqf",
		Short: "Add a tokenizer to a VQF file that has none",
		Long: `Writes a copy of a bare VQF file with tokenizer, chat template and stop tokens
inside, so that it can be served alone. The weights are copied byte for byte, and
their checksum is checked on the way. An encrypted file stays encrypted under its
passphrase; a signature inside does not survive: --sign makes a new one,
--drop-signature does without.

FROM is a Hugging Face directory (tokenizer.json, or vocab.json with merges.txt,
and tokenizer_config.json, generation_config.json, modules.json where there are any), a
tokenizer.json, the model's .gguf, or another .vqf, which the same passphrase opens
if it is encrypted.`,
		Example: `  windhover pack bare.vqf --tokenizer ~/models/Qwen3-0.6B -o qwen3-0.6b.vqf
  windhover pack model.vqf --tokenizer tokenizer.json -o model.vqf`,
		Args: models(1, cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			if tokenizer == "" || out == "" {
				return usagef(cmd, "--tokenizer and -o are needed")
			}
			if opt.DropSignature && signer != "" {
				return usagef(cmd, "--sign and --drop-signature are two answers: give one")
			}
			path, err := target(cmd, out, tokenizer, passphraseFile(keyFile), signer)
			if err == nil {
				err = seekable(tokenizer)
			}
			if err != nil {
				return err
			}
			if opt.Key, err = appliance.ReadPassphrase(keyFile); err != nil {
				return err
			}
			if opt.Sign, err = readInside(cmd, signer); err != nil {
				return err
			}
			words, err := convert.ReadSealedWords(tokenizer, opt.Key)
			if err != nil {
				return keyHint(err)
			}
			update, end := progress(cmd, "packing")
			defer end()
			r, err := convert.Pack(cmd.Context(), a[0], words, path, opt, func(done, total int64) { update(done/2, total/2) })
			if err != nil {
				return keyHint(err)
			}
			end()
			if wantJSON(cmd) {
				return printJSON(cmd, r)
			}
			template := "with a chat template"
			if !r.Template {
				template = "no chat template found: only plain continuation (--raw) will work"
			}
			tied := "output matrix of its own"
			if r.Tied {
				tied = "tied embeddings"
			}
			embeds := ""
			if r.Pooling != "" {
				embeds = fmt.Sprintf(", embeddings of the %s token", r.Pooling)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "tokenizer  %s: %d tokens, stop ids %v, %s\nmodel      %d parameters, %s%s\nwrote %s: %d tensors, %s, file_sum=%s, %.2f seconds\n",
				r.Tokenizer, r.Tokens, r.StopIDs, template, r.Params, tied, embeds, r.Output, r.Tensors, mib(r.Bytes), r.FileSum, r.Seconds)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&tokenizer, "tokenizer", "", "where the tokenizer is")
	f.StringVarP(&out, "out", "o", "", "file to write")
	f.StringVar(&opt.Name, "name", "", "name in the metadata (default: what FROM or the file says)")
	f.StringVar(&signer, "sign", "", "file with the SM2 private key that signs the result")
	f.BoolVar(&opt.DropSignature, "drop-signature", false, "let a signature inside go")
	addKeyFileFlag(cmd, &keyFile)
	addProgressFlag(cmd)
	return cmd
}
