// SPDX-License-Identifier: Apache-2.0

package safetensors

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"
)

// FuzzIndex: whatever the bytes, reading an index returns; what it names lies beside it.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":8},"weight_map":{"a":"y.safetensors","b":"x.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../x.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"\u0061":"\\x.safetensors"},"weight_map":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := readIndex(bytes.NewReader(b))
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("%v is no ErrFormat", err)
			}
			return
		}
		if len(list) == 0 {
			t.Fatal("an index of nothing")
		}
		for _, w := range list {
			if dir, name := filepath.Split(filepath.Join("dir", w.file)); dir != "dir/" || name != w.file {
				t.Fatalf("tensor %q is in %q", w.tensor, w.file)
			}
		}
	})
}
