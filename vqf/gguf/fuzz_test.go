// SPDX-License-Identifier: Apache-2.0

package gguf_test

import (
	"testing"

	"windhover/vqf/gguf"
)

// FuzzOpen: whatever the bytes, opening returns; what opens keeps its word:
// every tensor lies in the file and every value can be asked for.
func FuzzOpen(f *testing.F) {
	f.Add(everyKind(2))
	f.Add(everyKind(3))
	f.Add(newImage(3, 1<<63, 1<<63).b)
	f.Add(newImage(3, 0, 1).array("a", 8, 1<<61).b)
	f.Add(newImage(3, 2, 1).key("general.alignment", 4).u32(64).tensor("v", 30, 0, 4, 4).tensor("w", 12, 64, 256).data(64, 64+144).b)
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := open(b)
		if err != nil {
			return
		}
		for _, key := range g.Keys() {
			typ, elem, _, err := g.Kind(key)
			if err != nil {
				t.Fatalf("key %q vanished: %v", key, err)
			}
			if typ == gguf.TypeArray && elem == gguf.TypeString {
				if _, err := g.Texts(key); err != nil {
					t.Fatalf("key %q: %v", key, err)
				}
			}
			if _, err := g.Scalar(key); err != nil {
				t.Fatalf("key %q: %v", key, err)
			}
		}
		for _, w := range g.Tensors() {
			if w.Offset < g.DataOffset() || w.Bytes <= 0 || w.Offset+w.Bytes > int64(len(b)) {
				t.Fatalf("tensor %q at %d+%d of %d bytes", w.Name, w.Offset, w.Bytes, len(b))
			}
			if !w.Type.Readable() {
				continue
			}
			if err := g.ReadFloats(make([]float32, w.Values()), w, 0); err != nil {
				t.Fatalf("tensor %q: %v", w.Name, err)
			}
		}
	})
}
