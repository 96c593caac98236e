// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"windhover/appliance"
	"windhover/engine"
	"windhover/engine/tokenizer"
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
	// calibrationText bounds what is read of the text: 64 bytes for each token
	// that counts, of which a language takes three to six.
	calibrationText = 64 * maxCalibration
	// calibrationBytes bounds what is kept of the calibration, of 1 GB in all.
	calibrationBytes   = 400 << 20
	calibrationContext = 512
	calibrationChunk   = 256
)

// read puts the importance of inputs into the options, which takes a while for
// --calibrate. Nothing is done for a result without four-bit weights, which
// the conversion says. What a killed process left of a calibration for out goes.
func (o *convertOptimize) read(cmd *cobra.Command, src, out string, opt *convert.Options) (err error) {
	if err := os.RemoveAll(calibrationDir(out)); err != nil {
		return err
	}
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
		return fmt.Errorf("--calibrate: %s is a mixture of experts, of whose experts a text meets too few: use --imatrix", src)
	case !plan.Embedded && !opt.Bare:
		return fmt.Errorf("--calibrate: %s has no tokenizer, and so the model cannot read a text: use --imatrix", src)
	}
	if opt.Resume {
		cmd.PrintErrln("windhover: --resume keeps what is converted, not what a calibration found: the text is read again each time")
	}
	tokens, err := o.tokens(cmd, src)
	if err != nil {
		return err
	}
	opt.Importance, err = o.calibration(cmd, src, out, tokens, *opt)
	return err
}

// tokens are the text as the model reads it: what the conversion embeds is the
// tokenizer of src.
func (o *convertOptimize) tokens(cmd *cobra.Command, src string) ([]int32, error) {
	text, err := calibrationOf(cmd, o.calibrate)
	if err != nil {
		return nil, err
	}
	words, err := convert.ReadWords(src)
	if err != nil {
		return nil, err
	}
	tok, err := tokenizer.Parse(words.Tokenizer)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", words.Origin, err)
	}
	tokens := tok.Encode(text, true)
	if len(tokens) < minCalibration {
		return nil, fmt.Errorf("%s has %d tokens, too few to calibrate with: give it %d or more", o.calibrate, len(tokens), minCalibration)
	}
	return tokens[:min(len(tokens), maxCalibration)], nil
}

// calibrationOf reads the beginning of a text file, or of standard input for "-".
// What is no text teaches a model nothing, and is refused.
func calibrationOf(cmd *cobra.Command, path string) (text string, err error) {
	in := cmd.InOrStdin()
	if path != "-" {
		f, oerr := os.Open(path)
		if oerr != nil {
			return "", oerr
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, calibrationText))
	if err != nil {
		return "", err
	}
	at := 0
	for at < len(b) && b[at] != 0 {
		r, n := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	if at == len(b) || len(b) == calibrationText && b[at] != 0 && !utf8.FullRune(b[at:]) { // the last character is cut
		return string(b[:at]), nil
	}
	return "", fmt.Errorf("%s is no text in UTF-8: byte 0x%02x at %d", path, b[at], at)
}

// calibrationDir is where the eight-bit conversion lies that reads for out: beside
// it, under a name that those who watch the directory leave alone.
func calibrationDir(out string) string {
	return filepath.Join(filepath.Dir(out), "."+filepath.Base(out)+".calibrate.tmp")
}

// calibration converts the model to eight bits and lets it read. The weights may
// be a secret of whoever converts: nobody else may look into the directory.
func (o *convertOptimize) calibration(cmd *cobra.Command, src, out string, tokens []int32, opt convert.Options) (i *convert.Importance, err error) {
	dir := calibrationDir(out)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "model.vqf")
	update, end := phaseProgress(cmd, "preparing to calibrate", inBytes)
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
	update, end = phaseProgress(cmd, "calibrating", inTokens)
	i, err = o.gather(cmd.Context(), m, tokens, update)
	end()
	return i, errors.Join(err, m.Close())
}

// gather lets m read the text.
func (o *convertOptimize) gather(ctx context.Context, m *engine.Model, tokens []int32, update func(done, total int64)) (*convert.Importance, error) {
	list, err := m.Importance(ctx, tokens, calibrationBytes, func(done, total int) { update(int64(done), int64(total)) })
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
func phaseProgress(cmd *cobra.Command, what string, in unit) (update func(done, total int64), end func()) {
	if fd, err := cmd.Flags().GetInt("progress-fd"); err == nil && fd > 2 {
		return func(int64, int64) {}, func() {}
	}
	return progressIn(cmd, what, in)
}
