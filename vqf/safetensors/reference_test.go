// SPDX-License-Identifier: Apache-2.0

package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"windhover/vqf/safetensors"
)

// stricter are the headers that the reference reader takes and this one does not: each
// is something that no writer makes.
var stricter = []struct{ begin, why string }{
	{"begins with", "the format wants the header to begin with '{'"},
	{"found '[', want '{'", "a tensor as an array of its attributes: the format knows objects alone"},
	{"found '{', want '\"'", "a dtype as an object: as above"},
}

// TestReference compares with what the reference reader says, by testdata/reference.py.
func TestReference(t *testing.T) {
	file := "testdata/reference.json"
	if s := os.Getenv("WINDHOVER_SAFETENSORS_CASES"); s != "" {
		file = s
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name    string
		Header  []byte
		Data    int
		Tensors map[string][4]json.RawMessage // nil: refused
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	taken := 0
	for _, c := range cases {
		b := binary.LittleEndian.AppendUint64(nil, uint64(len(c.Header)))
		b = append(b, c.Header...)
		for i := range c.Data {
			b = append(b, byte(i%251))
		}
		f, err := open(b)
		if err != nil && !errors.Is(err, safetensors.ErrFormat) {
			t.Errorf("%s: %v is no ErrFormat", c.Name, err)
		}
		if (err == nil) != (c.Tensors != nil) {
			if err == nil || !slices.ContainsFunc(stricter, func(s struct{ begin, why string }) bool { return strings.Contains(err.Error(), s.begin) }) {
				t.Errorf("%s: %q: got %v, the reference reader says %s", c.Name, c.Header, err, c.Tensors)
			}
			continue
		}
		if err != nil {
			continue
		}
		taken++
		if len(f.Tensors()) != len(c.Tensors) {
			t.Errorf("%s: %d tensors, want %d", c.Name, len(f.Tensors()), len(c.Tensors))
		}
		for name, want := range c.Tensors {
			w, ok := f.Tensor(name)
			shape, err1 := json.Marshal(w.Shape)
			dtype, err2 := json.Marshal(w.DType)
			var first, size int64
			if err := errors.Join(err1, err2, json.Unmarshal(want[2], &first), json.Unmarshal(want[3], &size)); err != nil {
				t.Fatal(err)
			}
			if !ok || !bytes.Equal(dtype, want[0]) || string(shape) != strings.ReplaceAll(string(want[1]), " ", "") || w.Bytes != size || size > 0 && int64(b[w.Offset]) != first {
				t.Errorf("%s: tensor %q: %+v, want %s", c.Name, name, w, want)
			}
		}
	}
	if taken < 50 {
		t.Errorf("%d of %d headers were taken: what is compared?", taken, len(cases))
	}
}
