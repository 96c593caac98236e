// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windhover/vqf"
	"windhover/vqf/gguf"
)

// ggufImage is a file of one key and tensors of 32 bytes that all lie at offset 0.
func ggufImage(name, value string, tensors ...string) []byte {
	le := binary.LittleEndian
	text := func(b []byte, s string) []byte { return append(le.AppendUint64(b, uint64(len(s))), s...) }
	b := le.AppendUint32([]byte("GGUF"), 3)
	b = le.AppendUint64(le.AppendUint64(b, uint64(len(tensors))), 1)
	b = text(le.AppendUint32(text(b, name), 8), value)
	for _, t := range tensors {
		b = le.AppendUint64(le.AppendUint32(text(b, t), 1), 8)
		b = le.AppendUint64(le.AppendUint32(b, 0), 0)
	}
	return append(b, make([]byte, 64)...)
}

// TestInspectHostile shows of a damaged file what stands before the damage, and of
// names nothing that a terminal would act on.
func TestInspectHostile(t *testing.T) {
	many := make([]string, 5000)
	for i := range many {
		many[i] = fmt.Sprint("t", i)
	}
	for _, c := range []struct {
		name    string
		b       []byte
		shown   string
		tensors int
		refused bool
	}{
		{"overlap", ggufImage("general.name", "x", "a", "b"), "general.name", 2, true},
		{"many", ggufImage("general.name", "x", many...), "t4095", maxDamaged, true},
		{"terminal", ggufImage("general\x1b[2J", "x\x1b[31m", "a\nb\x1b]0;c\a"), `"a\nb\x1b]0;c\a"`, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.gguf")
			if err := os.WriteFile(path, c.b, 0o600); err != nil {
				t.Fatal(err)
			}
			d, err := inspect(path)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			if err := d.print(&out); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), c.shown) || strings.ContainsAny(out.String(), "\x1b\a") || len(d.Tensors) != c.tensors {
				t.Errorf("%d tensors, shown as\n%.400q", len(d.Tensors), out.String())
			}
			if errors.Is(d.refused, gguf.ErrFormat) != c.refused {
				t.Errorf("refused: %v", d.refused)
			}
		})
	}
}

// A directory says its architecture; one that cannot be converted is shown all the
// same.
func TestInspectDirectory(t *testing.T) {
	const hf = "../../engine/testdata/qwen3-tiny"
	d, err := inspect(hf)
	if err != nil {
		t.Fatal(err)
	}
	if a, ok := d.Arch.(*vqf.Arch); !ok || d.Architecture != "qwen3" || a.Dim != 128 || a.NLayers != 3 {
		t.Errorf("architecture %q, %+v", d.Architecture, d.Arch)
	}
	bare := t.TempDir()
	b, err := os.ReadFile(filepath.Join(hf, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bare, "model.safetensors"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if d, err = inspect(bare); err != nil || d.Architecture != "" || d.Arch != nil || len(d.Tensors) < 10 {
		t.Errorf("without config.json: %+v, %v", d, err)
	}
}
