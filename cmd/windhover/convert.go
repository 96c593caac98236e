// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"windhover/appliance"
	"windhover/vqf/convert"
)

func newConvert() *cobra.Command {
	var opt convert.Options
	var out string
	var quality bool
	var keys convertKeys
	var optimize convertOptimize
	cmd := &cobra.Command{
		Use:   "convert SRC [-o OUT.vqf]",
		Short: "Convert a Hugging Face directory or a GGUF file to VQF",
		Long: `Converts a model to VQF, the format that windhover serves: weights quantised and
laid out for the kernels, tokenizer and chat template inside. SRC is a GGUF file,
or a Hugging Face directory with config.json, *.safetensors and tokenizer files.
Architectures: qwen3, llama, qwen3moe (mixtures of experts) and qwen3vl (with
pictures). The vision tower is in a Hugging Face directory of qwen3vl, and in a
file of its own beside a GGUF file: give it with --mmproj. Of models that make
embeddings of texts, those are converted that take the last token's
(Qwen3-Embedding); others are refused, as what --bare makes of them embeds nothing.

The result appears under its name only when it is complete, has been read back
and has reached the disk. The same source and options give the same bytes on
every machine, but for what --encrypt and --sign draw. What is interrupted leaves
nothing; what is killed leaves hidden temporary files beside the result, which the
next conversion to the same name removes. With --resume both leave what the next
--resume of the same conversion goes on from: .NAME.partial and .NAME.journal. A
kill or a loss of power then costs a few seconds of the work, and a calibration.

--optimize makes better four-bit weights in the same format. With --calibrate the
model reads a text first, converted to eight bits beside the result for a while.

Modes: auto is q8 up to 1.0e9 parameters and q4 above. q4 takes 4.5 bits a
weight, q8 8.5; dual holds both and needs the room of both. q4i and g256 are
there for other engines that read VQF.`,
		Example: `  windhover convert SmolLM2-135M-Instruct.Q4_1.gguf
  windhover convert ~/models/Qwen3-0.6B -o qwen3-0.6b.vqf
  windhover convert model.gguf --mode q4 --max-seq 4096 -o small.vqf
  windhover convert model.gguf --mode q4 --optimize --calibrate book.txt
  windhover convert Qwen3VL-2B-Instruct-Q8_0.gguf --mmproj mmproj-Qwen3VL-2B-Instruct-F16.gguf
  windhover convert ~/models/Qwen3-8B --resume --report -o qwen3-8b.vqf
  windhover convert ~/models/Qwen3-8B --encrypt --key-file secret.txt --sign works.sm2.key`,
		Args: models(1, cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			start := time.Now() // the report's time is that of all the work, calibrating too
			opt.Converter = "windhover " + appliance.Version
			source := a[0]
			if out == "" { // then only what is no source at all would be replaced, which Run says
				source, out = "", convert.DefaultOutput(a[0])
			}
			if _, err := os.Stat(a[0]); err == nil { // else that is what to say
				if out, err = target(cmd, out, source, filepath.Join(a[0], "model.safetensors.index.json"), opt.Mmproj, optimize.calibrate, optimize.imatrix, passphraseFile(keys.file), keys.signer); err != nil {
					return err
				}
			}
			if err := seekable(opt.Mmproj, optimize.imatrix); err != nil {
				return err
			}
			if err := keys.read(cmd, &opt); err != nil {
				return err
			}
			if err := optimize.read(cmd, a[0], out, &opt); err != nil {
				return err
			}
			update, end := progress(cmd, "converting")
			defer end()
			// The file is written and read back: twice its size.
			report, err := convert.Run(cmd.Context(), a[0], out, opt, func(done, total int64) { update(done/2, total/2) })
			if err != nil {
				return err
			}
			end()
			report.Seconds = time.Since(start).Seconds()
			if wantJSON(cmd) {
				return printJSON(cmd, report)
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), report)
			if err == nil && quality {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "\n%s", report.QualityTable())
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVarP(&out, "out", "o", "", "file to write (default: SRC with .vqf, or model.vqf in a directory)")
	f.StringVar(&opt.Mode, "mode", "auto", "auto, q4, q8, dual, q4i or g256")
	f.StringVar(&opt.Q8Layout, "q8-layout", "", "8x8, 4x4 or row (default: 8x8; 4x4 when VLLM_Q8_8X8=0)")
	f.StringVar(&opt.Header, "header", "auto", "fields of the header: auto, 41 or 45")
	completes(cmd, "mode", modeValues...)
	completes(cmd, "q8-layout", layoutValues...)
	completes(cmd, "header", headerValues...)
	f.StringVar(&opt.Mmproj, "mmproj", "", "GGUF file with the vision tower that belongs to a GGUF model")
	f.BoolVar(&opt.TextOnly, "text-only", false, "leave out the vision tower that a directory has")
	f.BoolVar(&opt.Bare, "bare", false, "leave tokenizer and metadata out; a serving engine then needs them beside the file")
	f.IntVar(&opt.MaxSeq, "max-seq", 0, "context in the header, tokens (default: the model's, at most 8192)")
	f.IntVar(&opt.Threads, "threads", 0, "threads (default: all)")
	f.IntVar(&opt.Chunk, "chunk", 0, "rows converted at once (default: what fits the caches)")
	f.BoolVar(&opt.Resume, "resume", false, "keep what is done when interrupted, and continue what was kept")
	f.BoolVar(&quality, "report", false, "print how far each tensor is from the source, layer by layer")
	f.StringVar(&opt.Name, "name", "", "name in the metadata (default: what the source says)")
	optimize.addFlags(cmd, &opt)
	keys.addFlags(cmd)
	addProgressFlag(cmd)
	return cmd
}
