// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"windhover/engine"
)

// evalDoc is what eval prints with --json.
type evalDoc struct {
	Tokens      int       `json:"tokens"`
	Logits      string    `json:"logits,omitempty"`
	Vocab       int       `json:"vocab"`
	Greedy      []int32   `json:"greedy,omitempty"`
	Margins     []float32 `json:"margins,omitempty"` // best logit minus the second
	NLL         *float64  `json:"nll,omitempty"`     // mean, nats a token
	Scored      int       `json:"scored,omitempty"`
	Window      int       `json:"window,omitempty"`
	Activations string    `json:"activations"`
	Threads     int       `json:"threads"`
	Seconds     float64   `json:"seconds"`
}

func (f *evalFlags) evaluate(cmd *cobra.Command, m *engine.Model) error {
	ids, err := f.ids(cmd, m)
	if err != nil {
		return err
	}
	pictures, err := f.pictures.load(cmd.Context(), m)
	if err != nil {
		return err
	}
	ctx, start, info := cmd.Context(), time.Now(), m.Info()
	doc := evalDoc{Tokens: len(ids), Vocab: info.Config.Vocab, Activations: info.Activations, Threads: info.Threads}
	if f.logits != "" {
		doc.Logits = f.logits
		if err := writeLogits(ctx, m, ids, pictures, f.logits); err != nil {
			return err
		}
	}
	if f.greedy > 0 {
		if doc.Greedy, doc.Margins, err = m.Greedy(ctx, ids, f.greedy, pictures...); err != nil {
			return err
		}
	}
	if f.nll {
		mean, scored, err := m.NLL(ctx, ids, f.window, nil)
		if err != nil {
			return err
		}
		doc.NLL, doc.Scored, doc.Window = &mean, scored, f.window
	}
	doc.Seconds = time.Since(start).Seconds()
	if wantJSON(cmd) {
		return printJSON(cmd, doc)
	}
	if doc.Greedy != nil {
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), joinIDs(doc.Greedy)); err != nil {
			return err
		}
	}
	if doc.NLL != nil {
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%.6f\n", *doc.NLL); err != nil {
			return err
		}
		note(cmd, "%d of %d tokens scored in windows of %d", doc.Scored, doc.Tokens, doc.Window)
	}
	if doc.Logits != "" {
		note(cmd, "wrote %s: float32 [%d][%d]", doc.Logits, doc.Tokens, doc.Vocab)
	}
	return nil
}

// writeLogits streams the logits to a file, which is gone again after an error.
func writeLogits(ctx context.Context, m *engine.Model, ids []int32, pictures []*engine.Picture, path string) (err error) {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	fi, err := out.Stat()
	if err != nil {
		return errors.Join(err, out.Close())
	}
	defer func() {
		err = errors.Join(err, out.Close())
		if err != nil && fi.Mode().IsRegular() { // a device or pipe stays
			_ = os.Remove(path) // the first error tells more
		}
	}()
	w := bufio.NewWriterSize(out, 1<<20)
	var row []byte
	err = m.Logits(ctx, ids, 0, func(_ int, logits []float32) error {
		row = row[:0]
		for _, l := range logits {
			row = binary.LittleEndian.AppendUint32(row, math.Float32bits(l))
		}
		_, err := w.Write(row)
		return err
	}, pictures...)
	return errors.Join(err, w.Flush())
}

// parseIDs reads "1,2,3".
func parseIDs(cmd *cobra.Command, list string) ([]int32, error) {
	var ids []int32
	for _, word := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }) {
		id, err := strconv.ParseInt(word, 10, 32)
		if err != nil {
			return nil, usagef(cmd, "token id %q is no whole number", word)
		}
		ids = append(ids, int32(id))
	}
	if len(ids) == 0 {
		return nil, usagef(cmd, "no token ids: write them as 1,2,3")
	}
	return ids, nil
}

func joinIDs(ids []int32) string {
	var b strings.Builder
	for i, id := range ids {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(id)))
	}
	return b.String()
}
