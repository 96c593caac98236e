// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"windhover/appliance"
)

func newBench() *cobra.Command {
	var opt appliance.BenchOptions
	cmd := &cobra.Command{
		Use:   "bench [MODEL.vqf]",
		Short: "Measure memory, kernels and token rates",
		Long: `Measures how fast memory is read and how much is calculated at most; how fast each
kernel multiplies (weights from memory for one token, from the caches for 64); how
long a model takes from load to its first token; and how fast it computes prompts
and generates, for each number of threads. Without a model, made-up weights of a
published shape are written to TMPDIR, every byte of them, and are gone afterwards.
GB are 10^9 bytes, GOPS 10^9 multiplications and additions a second. Nothing else
should run meanwhile.

"of read" and "of peak" are shares of what only reading memory and only calculating
reach on this machine, with as many threads; a little over 100 % is chance. "decode
behind the length" is generating one token after the other, with so many before.

Shapes: ` + strings.Join(appliance.BenchShapes(), ", ") + `.
The last is a mixture of experts.`,
		Example: `  windhover bench
  windhover bench model.vqf --threads 1,2,4
  windhover bench --shape qwen3-1.7b --mode q4 --prompt 512,2048 --context 0,2048
  windhover bench --mixed`,
		Args: models(1, cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			if err := benchFits(cmd, opt.Mixed, len(a) == 1); err != nil {
				return err
			}
			if len(a) == 1 {
				opt.Model = a[0]
			}
			if opt.Shape != "" && !slices.Contains(appliance.BenchShapes(), opt.Shape) {
				return usagef(cmd, "no shape %q: use %s", opt.Shape, strings.Join(appliance.BenchShapes(), ", "))
			}
			if opt.Mode != "" && !slices.Contains([]string{"q8", "q4", "dual"}, opt.Mode) {
				return usagef(cmd, "no mode %q for made-up weights: use q8, q4 or dual", opt.Mode)
			}
			if opt.KV != "" && opt.KV != "f16" && opt.KV != "int8" {
				return usagef(cmd, "no kv cache %q: use f16 or int8", opt.KV)
			}
			line := func(text string) {
				_, _ = fmt.Fprintln(cmd.OutOrStdout(), text) // a measurement goes on without its reader
			}
			if wantJSON(cmd) {
				line = func(text string) { note(cmd, "%s", text) }
			}
			if status := cmd.ErrOrStderr(); isTerminal(status) {
				draw := newStatusLine(status, time.Now)
				defer draw.clear()
				opt.Doing = draw.show
				finding := line
				line = func(text string) { draw.clear(); finding(text) }
			}
			report, err := appliance.Bench(cmd.Context(), opt, line)
			if err != nil || !wantJSON(cmd) {
				return err
			}
			return printJSON(cmd, report)
		},
	}
	f := cmd.Flags()
	f.StringVar(&opt.Shape, "shape", "", "shape of made-up weights (default: "+appliance.BenchShapes()[0]+")")
	f.IntVar(&opt.Layers, "layers", 0, "layers of made-up weights, at most the shape's (default: all)")
	f.StringVar(&opt.Mode, "mode", "", "q8, q4 or dual, of made-up weights (default: q8)")
	f.IntSliceVar(&opt.Threads, "threads", nil, "numbers of threads, comma-separated (default: 1, 2, 4 … all big cores)")
	f.IntVar(&opt.Tokens, "tokens", 0, "tokens to generate (default: about two seconds of them)")
	f.IntSliceVar(&opt.Prompt, "prompt", nil, "tokens of the prompts, comma-separated (default: 512)")
	f.IntSliceVar(&opt.Context, "context", nil, "tokens before the generated ones, comma-separated (default: 0)")
	f.StringVar(&opt.KV, "kv", "", "KV cache: f16 or int8 (default: f16)")
	completes(cmd, "shape", appliance.BenchShapes()...)
	completes(cmd, "mode", "q8", "q4", "dual")
	completes(cmd, "kv", kvValues...)
	f.BoolVar(&opt.Quick, "quick", false, "shorter and less exact")
	f.BoolVar(&opt.Mixed, "mixed", false, "only compare the 8x8 and the 4x4 layout on the matrices of an 8B model")
	f.BoolVar(&opt.Board, "board-reference", false, "with --mixed, show what is published for an RK3588 (always on arm64)")
	return cmd
}

// benchFits refuses what would not be measured.
func benchFits(cmd *cobra.Command, mixed, model bool) error {
	switch {
	case mixed && model:
		return usagef(cmd, "--mixed compares the matrices of an 8B model, of made-up weights: leave it out, or the model")
	case mixed:
		return idle(cmd, "with --mixed, which measures no model", "shape", "layers", "mode", "tokens", "prompt", "context", "kv")
	case model && (cmd.Flags().Changed("shape") || cmd.Flags().Changed("layers") || cmd.Flags().Changed("mode")):
		return usagef(cmd, "--shape, --layers and --mode are for made-up weights: leave them out, or the model")
	}
	return idle(cmd, "without --mixed", "board-reference")
}
