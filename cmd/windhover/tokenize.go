// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"windhover/appliance"
	"windhover/engine/tokenizer"
	"windhover/vqf/convert"
)

type tokenizeFlags struct {
	decode, jsonl string
	noSpecial     bool
	keyFile       string
}

func newTokenize() *cobra.Command {
	var flags tokenizeFlags
	cmd := &cobra.Command{
		Use:   "tokenize MODEL TEXT",
		Short: "Turn text into token ids, or back",
		Long: `Prints the token ids of TEXT, comma-separated; "-" reads it from standard input.
MODEL is a .vqf file, a .gguf file, a tokenizer.json, or a directory that holds one.
With --json: {"ids":[…],"tokens":[…]}; --jsonl prints its arrays either way.`,
		Example: `  windhover tokenize model.vqf 'Hello, world'
  windhover tokenize model.vqf --decode 19556,28,905
  windhover tokenize model.vqf --jsonl texts.jsonl > ids.jsonl`,
		Args: models(1, cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, a []string) error {
			if given := len(a) - 1 + one(flags.decode != "") + one(flags.jsonl != ""); given != 1 {
				return usagef(cmd, "give one of TEXT, --decode and --jsonl")
			}
			tok, err := flags.open(a[0])
			if err != nil {
				return err
			}
			switch {
			case flags.decode != "":
				return flags.decodeIDs(cmd, tok)
			case flags.jsonl != "":
				return flags.lines(cmd, tok)
			}
			text := a[1]
			if text == "-" {
				if text, err = readAll(cmd, maxText); err != nil {
					return err
				}
			}
			return flags.encode(cmd, tok, text)
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.decode, "decode", "", "ids to turn into text, comma-separated")
	f.StringVar(&flags.jsonl, "jsonl", "", "file with one JSON string a line; prints one JSON array of ids a line; - is standard input")
	addKeyFileFlag(cmd, &flags.keyFile)
	f.BoolVar(&flags.noSpecial, "no-special", false, "read special tokens in the text as text; leave them out when decoding")
	return cmd
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (f *tokenizeFlags) open(path string) (*tokenizer.Tokenizer, error) {
	key, err := appliance.ReadPassphrase(f.keyFile)
	if err != nil {
		return nil, err
	}
	words, err := convert.ReadSealedWords(path, key)
	if err != nil {
		return nil, keyHint(err)
	}
	return tokenizer.Parse(words.Tokenizer)
}

func (f *tokenizeFlags) encode(cmd *cobra.Command, tok *tokenizer.Tokenizer, text string) error {
	ids := tok.Encode(text, !f.noSpecial)
	if !wantJSON(cmd) {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), joinIDs(ids))
		return err
	}
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = string(tok.TokenBytes(id))
	}
	return printJSON(cmd, struct {
		IDs    []int32  `json:"ids"`
		Tokens []string `json:"tokens"`
	}{append([]int32{}, ids...), words})
}

func (f *tokenizeFlags) decodeIDs(cmd *cobra.Command, tok *tokenizer.Tokenizer) error {
	ids, err := parseIDs(cmd, f.decode)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if id < 0 || int(id) >= tok.VocabSize() {
			return usagef(cmd, "token id %d: the vocabulary has %d", id, tok.VocabSize())
		}
	}
	text := tok.Decode(ids, f.noSpecial)
	if wantJSON(cmd) {
		return printJSON(cmd, map[string]string{"text": text})
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}

// lines encodes one JSON string a line.
func (f *tokenizeFlags) lines(cmd *cobra.Command, tok *tokenizer.Tokenizer) error {
	in := cmd.InOrStdin()
	if f.jsonl != "-" {
		file, err := os.Open(f.jsonl)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // read only
		in = file
	}
	r, w := bufio.NewReaderSize(in, 1<<20), bufio.NewWriterSize(cmd.OutOrStdout(), 1<<20)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return err
		}
		if len(bytes.TrimSpace(line)) > 0 {
			var text string
			if jerr := json.Unmarshal(line, &text); jerr != nil {
				return fmt.Errorf("%s: line %d is no JSON string: %v", f.jsonl, n, jerr)
			}
			if _, werr := fmt.Fprintf(w, "[%s]\n", joinIDs(tok.Encode(text, !f.noSpecial))); werr != nil {
				return werr
			}
		}
		if err == io.EOF {
			return w.Flush()
		}
	}
}
