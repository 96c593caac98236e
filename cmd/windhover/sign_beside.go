// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"windhover/vqf"
	"windhover/vqf/seal"
)

// signBeside writes FILE.minisig.
func signBeside(cmd *cobra.Command, k *seal.MinisignPrivate, path, out, comment, signer string) error {
	start := time.Now()
	if out == "" {
		out = path + seal.MinisignSuffix
	}
	if !cmd.Flags().Changed("comment") {
		comment = fmt.Sprintf("timestamp:%d\tfile:%s\thashed", start.Unix(), filepath.Base(path))
	}
	if strings.ContainsAny(comment, "\r\n") {
		return usagef(cmd, "--comment is one line")
	}
	if len(comment) > seal.MaxComment {
		return usagef(cmd, "--comment has %d bytes: minisign reads %d", len(comment), seal.MaxComment)
	}
	out, err := target(cmd, out, path, signer)
	if err != nil {
		return err
	}
	update, end := progress(cmd, "signing")
	defer end()
	sum, size, err := minisignSum(cmd.Context(), path, update)
	if err != nil {
		return err
	}
	end()
	s, err := k.Sign(sum, comment)
	if err != nil {
		return err
	}
	if err := vqf.ReplaceFile(out, s.File()); err != nil {
		return err
	}
	if wantJSON(cmd) {
		return printJSON(cmd, struct {
			Output  string  `json:"output"`
			Key     string  `json:"key"`
			Comment string  `json:"comment"`
			Bytes   int64   `json:"bytes"` // signed
			Seconds float64 `json:"seconds"`
		}{out, k.Public().Name(), comment, size, time.Since(start).Seconds()})
	}
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "wrote %s: minisign key %s, %s signed, %.2f seconds\n", out, k.Public().Name(), mib(size), time.Since(start).Seconds()); err != nil {
		return err
	}
	hint(cmd, "Check it with:    windhover verify --pub NAME%s %s", seal.SuffixMinisign, path)
	return nil
}

// minisignSum is what a signature of the file is made of. A file that somebody
// writes to meanwhile has none.
func minisignSum(ctx context.Context, path string, progress func(done, total int64)) (sum []byte, size int64, err error) {
	f, size, err := openPlain(path)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = f.Close() }() // was only read
	before, err := vqf.StampOf(f)
	if err != nil {
		return nil, 0, err
	}
	if sum, err = seal.HashFile(ctx, f, seal.NewMinisignHash(), progress); err != nil {
		return nil, 0, err
	}
	// Its time of writing can be set back, the stamp cannot.
	if after, err := vqf.StampOf(f); err != nil {
		return nil, 0, err
	} else if after != before {
		return nil, 0, fmt.Errorf("%s was changed while it was read: wait until nobody writes to it, and try again", path)
	}
	return sum, size, nil
}

// openPlain opens a regular file, and waits at no pipe.
func openPlain(path string) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", path)
	}
	if err != nil {
		_ = f.Close() // was only opened
		return nil, 0, err
	}
	return f, fi.Size(), nil
}
