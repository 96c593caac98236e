// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"windhover/engine"
)

type evalFlags struct {
	tokens, textFile, logits string
	greedy, window           int
	nll                      bool
	pictures                 pictureFlags
}

func newEval() *cobra.Command {
	var flags evalFlags
	var load loading
	cmd := &cobra.Command{
		Use:   "eval MODEL.vqf",
		Short: "Compute logits, greedy continuations and likelihoods",
		Long: `Computes on token ids, or on the ids of a text, without a chat template. Choose
one or more of --logits, --greedy and --nll.

Each --image fills a run of image tokens in the ids, and each --video a run of video
tokens for each two of its pictures, in order; a run has a token for each place that
the model sees, as many as the picture has after resizing.

--activations f32 is the reference path: weights dequantised, activations not
quantised, plain float32. It is slow, and for comparing.`,
		Example: `  windhover eval model.vqf --tokens 1,2,3 --greedy 16
  windhover eval model.vqf --text-file text.txt --nll --window 512
  windhover eval vl.vqf --tokens 9,151652,151655,151655,151653,9 --image a.png --greedy 16
  windhover eval model.vqf --tokens 1,2,3 --logits logits.f32 --activations f32`,
		Args: models(1, cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			if err := flags.check(cmd); err != nil {
				return err
			}
			if err := apart(cmd, "--logits", flags.logits, a[0], flags.textFile, passphraseFile(load.keyFile)); err != nil {
				return err
			}
			load.opt.NoTokenizer = flags.textFile == ""
			m, err := load.open(cmd, a[0])
			if err != nil {
				return err
			}
			err = flags.evaluate(cmd, m)
			return errors.Join(err, m.Close())
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.tokens, "tokens", "", "token ids, comma-separated")
	f.StringVar(&flags.textFile, "text-file", "", "file with the text to tokenise; - is standard input")
	f.StringVar(&flags.logits, "logits", "", "write the logits to this file: float32, little-endian, [tokens][vocabulary]")
	f.IntVar(&flags.greedy, "greedy", 0, "continue by this many tokens, the likeliest each time, and print their ids")
	f.BoolVar(&flags.nll, "nll", false, "print the mean negative log-likelihood of a token, in nats")
	f.IntVar(&flags.window, "window", 512, "tokens computed from an empty cache at a time, for --nll; the first of each is not scored")
	f.StringVar(&load.opt.Activations, "activations", "int8", "int8, or f32 for the reference path")
	completes(cmd, "activations", "int8", "f32")
	load.add(cmd)
	f.IntVar(&load.opt.Chunk, "chunk", 0, "tokens computed at once; changes no bit of the result (default: 256)")
	flags.pictures.add(cmd, "for a run of its tokens in the ids")
	return cmd
}

func (f *evalFlags) check(cmd *cobra.Command) error {
	switch {
	case (f.tokens == "") == (f.textFile == ""):
		return usagef(cmd, "give --tokens or --text-file, one of them")
	case f.logits == "" && f.greedy == 0 && !f.nll:
		return usagef(cmd, "say what to compute: --logits, --greedy or --nll")
	case f.greedy < 0:
		return usagef(cmd, "--greedy %d: give the number of tokens", f.greedy)
	case f.nll && f.pictures.given():
		return usagef(cmd, "--nll is of text: leave --image and --video out")
	}
	if !f.nll {
		if err := idle(cmd, "without --nll", "window"); err != nil {
			return err
		}
	}
	return f.pictures.check(cmd)
}

// ids are the tokens to compute on.
func (f *evalFlags) ids(cmd *cobra.Command, m *engine.Model) ([]int32, error) {
	if f.textFile == "" {
		return parseIDs(cmd, f.tokens)
	}
	text, err := readText(cmd, f.textFile)
	if err != nil {
		return nil, err
	}
	return m.Tokenizer().Encode(text, true), nil
}

const maxText = 256 << 20

// readText reads a file, or standard input for "-".
func readText(cmd *cobra.Command, path string) (string, error) {
	if path == "-" {
		return readAll(cmd, maxText)
	}
	fi, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if fi.Size() > maxText {
		return "", fmt.Errorf("%s: %d bytes, at most %d are read", path, fi.Size(), maxText)
	}
	data, err := os.ReadFile(path)
	return string(data), err
}
