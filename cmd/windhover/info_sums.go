// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// addSums hashes every tensor, as it is stored. A tensor that lies outside of its
// file has no sum.
func (d *infoDoc) addSums(ctx context.Context, progress func(done, total int64)) (err error) {
	open := map[string]*os.File{}
	defer func() {
		for _, f := range open {
			err = errors.Join(err, f.Close())
		}
	}()
	var done, total int64
	for i := range d.Tensors {
		total += int64(d.Tensors[i].Bytes)
	}
	buf := make([]byte, 1<<20)
	for i := range d.Tensors {
		t := &d.Tensors[i]
		path := d.path
		if t.File != "" {
			path = filepath.Join(d.path, t.File)
		}
		if open[path] == nil {
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			open[path] = f
		}
		sum, err := sumOf(ctx, io.NewSectionReader(open[path], int64(t.Offset), int64(t.Bytes)), buf, func(n int) {
			done += int64(n)
			progress(done, total)
		})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			t.SHA256 = sum
		case d.refused == nil:
			return fmt.Errorf("%s: tensor %q: %w", path, t.Name, err)
		}
	}
	return nil
}

// sumOf hashes all of r, piece by piece.
func sumOf(ctx context.Context, r *io.SectionReader, buf []byte, read func(n int)) (string, error) {
	h := sha256.New()
	for left := r.Size(); left > 0; {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		n, err := io.ReadFull(r, buf[:min(left, int64(len(buf)))])
		if err != nil {
			return "", io.ErrUnexpectedEOF
		}
		h.Write(buf[:n])
		left -= int64(n)
		read(n)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
