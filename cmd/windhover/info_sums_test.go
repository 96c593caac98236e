// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"windhover/internal/testmodel"
)

// info --sums hashes the bytes of each tensor where the file has them, in every
// format, and sees how far it is.
func TestInfoSums(t *testing.T) {
	const hf = "../../engine/testdata/qwen3-tiny"
	gguf, err := filepath.Glob("../../vqf/gguf/testdata/*.gguf")
	if err != nil || len(gguf) == 0 {
		t.Fatalf("no GGUF file: %v", err)
	}
	for _, path := range []string{testmodel.Write(t, testmodel.Default()), gguf[0], hf, filepath.Join(hf, "model.safetensors")} {
		d, err := inspect(path)
		if err != nil {
			t.Fatal(err)
		}
		var last, total int64
		if err := d.addSums(context.Background(), func(done, all int64) {
			if done <= last {
				t.Errorf("%s: progress from %d to %d", path, last, done)
			}
			last, total = done, all
		}); err != nil {
			t.Fatal(err)
		}
		if last != total || len(d.Tensors) < 10 {
			t.Errorf("%s: %d tensors, ended at %d of %d", path, len(d.Tensors), last, total)
		}
		for _, x := range d.Tensors {
			file := path
			if x.File != "" {
				file = filepath.Join(path, x.File)
			}
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(b[x.Offset : x.Offset+x.Bytes])
			if want := hex.EncodeToString(sum[:]); x.SHA256 != want {
				t.Errorf("%s: %s: got %s, want %s", path, x.Name, x.SHA256, want)
			}
		}
	}
}

func TestInfoSumsCancelled(t *testing.T) {
	d, err := inspect(testmodel.Write(t, testmodel.Default()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	err = d.addSums(ctx, func(int64, int64) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
