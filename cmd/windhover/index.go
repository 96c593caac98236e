// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"windhover/control/ota"
	"windhover/vqf"
	"windhover/vqf/seal"
)

// indexEnd ends the name of a block index.
const indexEnd = ".index"

func newIndex() *cobra.Command {
	var keys []string
	var out string
	var block int
	cmd := &cobra.Command{
		Use:   "index FILE --key NAME.fleet.key [-o OUT]",
		Short: "Write the signed block index of a file for updates over the air",
		Long: `Writes FILE.index, or what -o says: the SHA-256 of each block of the file, signed by
fleet keys (see keygen). Boxes check a download by it while it comes, go on with it
where it was cut off, and take blocks that they have from installed files. Put both
files on a web server that serves ranges.

What is printed goes into the document that asks boxes for the file: size, sha256
and index of the model's entry. The index is of the file as it is: make it last.`,
		Example: `  windhover index qwen3-0.6b.vqf --key works.fleet.key
  windhover index qwen3-0.6b.vqf --key a.fleet.key --key b.fleet.key --json`,
		Args: models(1, cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			start := time.Now()
			signers, err := readFleetSigners(cmd, keys)
			if err != nil {
				return err
			}
			if out == "" {
				out = a[0] + indexEnd
			}
			path, err := target(cmd, out, append([]string{a[0]}, keys...)...)
			if err != nil {
				return err
			}
			update, end := progress(cmd, "indexing")
			defer end()
			x, err := indexFile(cmd, a[0], int64(block)<<10, update)
			if err != nil {
				return err
			}
			end()
			data := ota.Sign(ota.TypeIndex, x.Encode(), signers...).Encode()
			if err := vqf.ReplaceFile(path, data); err != nil {
				return err
			}
			sum := ota.Digest(sha256.Sum256(data))
			if wantJSON(cmd) {
				type ref struct {
					SHA256 ota.Digest `json:"sha256"`
					Block  int64      `json:"block"`
				}
				return printJSON(cmd, struct {
					Output  string     `json:"output"`
					Blocks  int        `json:"blocks"`
					Keys    []string   `json:"keys"`
					Size    int64      `json:"size"`
					SHA256  ota.Digest `json:"sha256"`
					Index   ref        `json:"index"`
					Seconds float64    `json:"seconds"`
				}{out, x.Count(), keyIDs(signers), x.Size, x.SHA256, ref{sum, x.Block}, time.Since(start).Seconds()})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "size          %d\nsha256        %s\nblock         %d\nindex sha256  %s\nwrote %s: %s, keys %s, %.2f seconds\n",
				x.Size, x.SHA256, x.Block, sum, out, several(x.Count(), "block"), strings.Join(keyIDs(signers), " "), time.Since(start).Seconds())
			return err
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&keys, "key", nil, "file with a private fleet key; several sign together")
	f.StringVarP(&out, "out", "o", "", "file to write (default: FILE"+indexEnd+")")
	f.IntVar(&block, "block", 1024, "KiB of a block, a power of two from 4 to 65536")
	addProgressFlag(cmd)
	return cmd
}

// indexFile makes the index of a file that nobody writes to meanwhile.
func indexFile(cmd *cobra.Command, path string, block int64, update func(done, total int64)) (*ota.Index, error) {
	f, size, err := openPlain(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // was only read
	before, err := vqf.StampOf(f)
	if err != nil {
		return nil, err
	}
	x, err := ota.BuildIndex(cmd.Context(), f, size, block, update)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if after, err := vqf.StampOf(f); err != nil {
		return nil, err
	} else if after != before {
		return nil, fmt.Errorf("%s was changed while it was read: wait until nobody writes to it, and try again", path)
	}
	return x, nil
}

// readFleetSigners reads the keys of --key, at least one.
func readFleetSigners(cmd *cobra.Command, files []string) ([]ed25519.PrivateKey, error) {
	if len(files) == 0 {
		return nil, usagef(cmd, "--key is needed: windhover keygen --type ed25519 makes one")
	}
	var keys []ed25519.PrivateKey
	for _, file := range files {
		k, err := seal.ReadFleetSigner(file)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, nil
}

func keyIDs(keys []ed25519.PrivateKey) []string {
	ids := make([]string, len(keys))
	for i, k := range keys {
		ids[i] = ota.KeyID(k.Public().(ed25519.PublicKey))
	}
	return ids
}
