// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"windhover/appliance"
	"windhover/engine"
	"windhover/vqf/convert"
)

// convertOptimize are the flags of convert for better four-bit weights.
type convertOptimize struct {
	calibrate, imatrix string
}

func (o *convertOptimize) addFlags(cmd *cobra.Command, opt *convert.Options) {
	f := cmd.Flags()
	f.BoolVar(&opt.Optimize, "optimize", false, "choose four-bit scales and codes for the smallest error, instead of rounding")
	f.StringVar(&o.calibrate, "calibrate", "", "with --optimize: text file that the model reads first, to learn which errors matter")
	f.StringVar(&o.imatrix, "imatrix", "", "with --optimize: importance matrix of llama.cpp, which says the same more roughly")
}

const (
	minCalibration = 256     // tokens; of fewer nothing can be learned
	maxCalibration = 1 << 16 // more say little that is new
	// calibrationBytes bounds what is kept of the calibration, of 1 GB in all.
	calibrationBytes   = 400 << 20
	calibrationContext = 512
	calibrationChunk   = 256
)

// read puts the importance of inputs into the options, which takes a while for
// --calibrate. Nothing is done for a result without four-bit weights, which
// the conversion says.
func (o *convertOptimize) read(cmd *cobra.Command, src, out string, opt *convert.Options) (err error) {
	switch {
	case o.calibrate == "" && o.imatrix == "":
		return nil
	case o.calibrate != "" && o.imatrix != "":
		return usagef(cmd, "give --calibrate or --imatrix, one of them")
	case !opt.Optimize:
		return usagef(cmd, "--calibrate and --imatrix say nothing without --optimize")
	}
	plan, err := convert.Examine(src, *opt)
	if err != nil || !plan.FourBit() {
		return err
	}
	if o.imatrix != "" {
		opt.Importance, err = convert.ReadImatrix(o.imatrix)
		return err
	}
	switch {
	case plan.Arch.MoE():
		return fmt.Errorf("--calibrate: %s is a mixture of experts, which cannot be run yet: use --imatrix", src)
	case !plan.Embedded && !opt.Bare:
		return fmt.Errorf("--calibrate: %s has no tokenizer, and so the model cannot read a text: use --imatrix", src)
	}
	text, err := readText(cmd, o.calibrate)
	if err != nil {
		return err
	}
	opt.Importance, err = o.calibration(cmd, src, out, text, *opt)
	return err
}

// calibration converts the model to eight bits, beside the result and under a
// name that those who watch the directory leave alone, and lets it read. The
// name is always the same, so that what a killed process left is replaced.
func (o *convertOptimize) calibration(cmd *cobra.Command, src, out, text string, opt convert.Options) (i *convert.Importance, err error) {
	path := filepath.Join(filepath.Dir(out), "."+filepath.Base(out)+".calibrate.tmp")
	defer func() {
		if rerr := os.Remove(path); err == nil && rerr != nil {
			err = rerr
		}
	}()
	update, end := phaseProgress(cmd, "preparing to calibrate")
	eight, err := convert.Run(cmd.Context(), src, path, convert.Options{Mode: "q8", TextOnly: true, Threads: opt.Threads, Converter: opt.Converter},
		func(done, total int64) { update(done/2, total/2) })
	if end(); err != nil {
		return nil, err
	}
	// Layer by layer, so that the weights need not fit beside what is gathered.
	m, err := appliance.OpenModel(path, engine.Options{Threads: opt.Threads, Residency: engine.ResidencyLayered,
		Context: min(calibrationContext, int(eight.Arch.MaxSeqLen)), Chunk: calibrationChunk})
	if err != nil {
		return nil, err
	}
	update, end = phaseProgress(cmd, "calibrating")
	i, err = o.gather(cmd.Context(), m, text, update)
	end()
	return i, errors.Join(err, m.Close())
}

// gather lets m read the text.
func (o *convertOptimize) gather(ctx context.Context, m *engine.Model, text string, update func(done, total int64)) (*convert.Importance, error) {
	tokens := m.Tokenizer().Encode(text, true)
	if len(tokens) < minCalibration {
		return nil, fmt.Errorf("%s has %d tokens, too few to calibrate with: give it %d or more", o.calibrate, len(tokens), minCalibration)
	}
	tokens = tokens[:min(len(tokens), maxCalibration)]
	list, err := m.Importance(ctx, tokens, calibrationBytes, func(done, total int) {
		update(int64(len(text))*int64(done)/int64(total), int64(len(text)))
	})
	if err != nil {
		return nil, err
	}
	i := convert.NewImportance(fmt.Sprintf("%d tokens of %s", len(tokens), filepath.Base(o.calibrate)))
	for _, in := range list {
		i.AddMoments(in.Roles, in.Layer, in.Moments)
	}
	return i, nil
}

// phaseProgress is progress for what comes before the work that a parent
// process hears of.
func phaseProgress(cmd *cobra.Command, what string) (update func(done, total int64), end func()) {
	if fd, err := cmd.Flags().GetInt("progress-fd"); err == nil && fd > 2 {
		return func(int64, int64) {}, func() {}
	}
	return progress(cmd, what)
}
