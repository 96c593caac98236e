// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
	if err := replaceFile(out, s.File()); err != nil {
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

func minisignSum(ctx context.Context, path string, progress func(done, total int64)) (sum []byte, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = f.Close() }() // was only read
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", path)
	}
	if err != nil {
		return nil, 0, err
	}
	sum, err = seal.HashFile(ctx, f, seal.NewMinisignHash(), progress)
	return sum, fi.Size(), err
}

// replaceFile writes a small file so that its name has the old content or the new.
func replaceFile(path string, content []byte) error {
	temporary := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d.tmp", filepath.Base(path), os.Getpid()))
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
