// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"windhover/appliance"
	"windhover/control"
	"windhover/engine"
)

// embedBatch is how many texts the engine is given at a time: it takes a bounded count
// of numbers, which are these of 16384 each.
const embedBatch = 64

type embedFlags struct {
	file       string
	dimensions int
	similarity bool
}

func newEmbed() *cobra.Command {
	var flags embedFlags
	var load loading
	cmd := &cobra.Command{
		Use:   "embed MODEL.vqf [TEXT...]",
		Short: "Turn texts into vectors that are near each other where the texts are alike",
		Long: `Prints the embedding of each TEXT, a JSON array of numbers a line, in their order; "-"
reads one text from standard input, without the line end at its close. With --file each
line is a text. The model has to be made for embeddings, as Qwen3-Embedding is. Vectors
have length 1, so that the cosine of two is the sum of their products. Texts are taken as
they are: what the model's card wants before a question is yours to write.

--similarity prints the cosines of all pairs in place of vectors.

With --json: one object, {"embeddings","usage","timing","model"}, and "similarity".`,
		Example: `  windhover embed model.vqf 'pump 3 runs dry' 'the pump has no water'
  windhover embed model.vqf --file manual.txt --dimensions 256 > manual.jsonl
  windhover embed model.vqf --similarity 'a cat' 'a kitten' 'a lorry'
  grep ERROR log.txt | windhover embed model.vqf --file -`,
		Args: models(1, cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			texts, err := flags.texts(cmd, a[1:])
			if err != nil {
				return err
			}
			m, err := load.open(cmd, a[0])
			if err != nil {
				return err
			}
			err = flags.embed(cmd, m, texts)
			return errors.Join(err, m.Close())
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.file, "file", "", "file with a text a line; - is standard input")
	f.BoolVar(&flags.similarity, "similarity", false, "print the cosines of all pairs, of a few texts")
	addDimensionsFlag(cmd, &flags.dimensions)
	load.add(cmd)
	f.IntVar(&load.opt.Context, "context", 0, "most tokens of a text (default: what the file names and the memory allows)")
	return cmd
}

// addDimensionsFlag adds the one of embed and send.
func addDimensionsFlag(cmd *cobra.Command, n *int) {
	cmd.Flags().IntVar(n, "dimensions", 0, "cut vectors to their first numbers, as models allow that are trained for it (default: all)")
}

func checkDimensions(cmd *cobra.Command, n int) error {
	if cmd.Flags().Changed("dimensions") && n < 1 {
		return usagef(cmd, "--dimensions %d: give at least 1", n)
	}
	return nil
}

// texts are what there is to embed.
func (f *embedFlags) texts(cmd *cobra.Command, given []string) (*textList, error) {
	if err := checkDimensions(cmd, f.dimensions); err != nil {
		return nil, err
	}
	if (f.file == "") == (len(given) == 0) {
		return nil, usagef(cmd, "give TEXT or --file, one of them")
	}
	list, err := givenTexts(cmd, given, maxText)
	if f.file != "" {
		list, err = lineTexts(cmd, f.file)
	}
	if err != nil {
		return nil, err
	}
	if n := len(list.texts); f.similarity && (n < 2 || n > maxSimilar) {
		return nil, usagef(cmd, "--similarity is of 2 to %d texts, not of %d", maxSimilar, n)
	}
	return list, nil
}

// embed computes and shows. Nothing is computed where a text is too long.
func (f *embedFlags) embed(cmd *cobra.Command, m *engine.Model, list *textList) error {
	if m.Dimensions() == 0 {
		_, err := m.Embed(cmd.Context(), engine.EmbedRequest{}, nil) // says why not
		why := strings.TrimPrefix(err.Error(), engine.ErrUnsupported.Error()+": ")
		return control.Errorf(control.Unsupported, "%s", why) // as the appliance does: nothing is wrong with the file
	}
	if n := m.Dimensions(); f.dimensions > n {
		return usagef(cmd, "--dimensions %d: a vector of this model has %d", f.dimensions, n)
	}
	tokens, total := make([][]int32, len(list.texts)), 0
	for i, text := range list.texts {
		tokens[i] = m.EmbedTokens(text)
		if n, most := len(tokens[i]), m.Info().Context; n > most {
			return refuse(engine.ErrContextOverflow, "%s: it has %d tokens, the context %d: cut it into several", list.name(i), n, most)
		}
		total += len(tokens[i])
	}
	out := newVectors(cmd, list, f.similarity)
	update, end := out.progress(total)
	defer end()
	e, err := embedAll(cmd.Context(), m, tokens, f.dimensions, func(i, done int, vector []float32) error {
		update(int64(done), int64(total))
		return out.take(i, vector)
	})
	end()
	if err != nil {
		return err
	}
	name := m.Info().Name
	if name == "" {
		name = m.Info().Path
	}
	u, ms := appliance.Usage(e.Usage), e.Timing.Total.Milliseconds()
	return out.finish("", u, control.Timing{TTFTMS: ms, TotalMS: ms, PrefillTPS: tenth(e.Timing.PrefillTPS)}, control.ModelRef{Name: name})
}

// embedAll is [engine.Model.Embed] for any count of texts; each is told how many tokens are done
// as well.
func embedAll(ctx context.Context, m *engine.Model, tokens [][]int32, dimensions int, each func(i, done int, vector []float32) error) (*engine.Embedded, error) {
	var all engine.Embedded
	start, done := time.Now(), 0
	for first := 0; first < len(tokens); first += embedBatch {
		batch := tokens[first:min(first+embedBatch, len(tokens))]
		e, err := m.Embed(ctx, engine.EmbedRequest{Texts: batch, Dimensions: dimensions}, func(i int, vector []float32) error {
			done += len(batch[i])
			return each(first+i, done, vector)
		})
		if err != nil {
			return nil, err
		}
		all.Usage.Prompt += e.Usage.Prompt
		all.Usage.Cached += e.Usage.Cached
		all.Timing.Prefill += e.Timing.Prefill
	}
	all.Timing.Total = time.Since(start)
	if s := all.Timing.Prefill.Seconds(); s > 0 {
		all.Timing.PrefillTPS = float64(all.Usage.Prompt-all.Usage.Cached) / s
	}
	return &all, nil
}
